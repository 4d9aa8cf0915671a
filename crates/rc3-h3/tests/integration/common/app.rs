//! The server's application.

use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes};
use h3::{
    error::{Code, StreamError},
    quic,
    server::{Connection, RequestResolver, RequestStream},
};
use http::Response;

use super::{Counter, Http, pattern};

/// Bytes of one frame of an endless body.
pub(crate) const FRAME: usize = 16 * 1024;

/// What the application has seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Bytes of endless bodies that the transport has accepted.
    pub(crate) accepted: Counter,
    /// The code with which the client refused an endless body.
    pub(crate) refused: Counter,
    /// Requests that reached the application.
    pub(crate) requests: Counter,
    /// Of `echo`, those that it received to their end.
    pub(crate) whole: Counter,
}

/// Answers requests until the client closes.
pub(crate) async fn serve<C: Http>(quic: C, seen: Seen) {
    let mut http: Connection<C, Bytes> = Connection::new(quic).await.unwrap();
    while let Ok(Some(resolver)) = http.accept().await {
        tokio::spawn(answer(resolver, seen.clone()));
    }
}

pub(crate) async fn answer<C: Http>(
    resolver: RequestResolver<C, Bytes>,
    seen: Seen,
) -> Result<(), StreamError> {
    let (request, stream) = resolver.resolve_request().await?;
    seen.requests.fetch_add(1, Ordering::Relaxed);
    let path = request.uri().path().trim_start_matches('/').to_string();
    match path.split_once('/').unwrap_or((&path, "")) {
        ("bytes", count) => bytes::<C>(stream, count.parse().unwrap()).await,
        ("echo", _) => echo::<C>(stream, seen).await,
        ("endless", _) => endless::<C>(stream, seen).await,
        ("ignore", _) => ignore::<C>(stream).await,
        ("panic", _) => panics::<C>(stream).await,
        other => panic!("a test asks for {other:?}"),
    }
}

type Stream<C> = RequestStream<<C as quic::OpenStreams<Bytes>>::BidiStream, Bytes>;

async fn bytes<C: Http>(mut stream: Stream<C>, count: usize) -> Result<(), StreamError> {
    stream.send_response(Response::new(())).await?;
    if count > 0 {
        stream.send_data(pattern(count)).await?;
    }
    stream.finish().await
}

/// Sends what arrives, while it arrives.
async fn echo<C: Http>(stream: Stream<C>, seen: Seen) -> Result<(), StreamError> {
    let (mut send, mut recv) = stream.split();
    send.send_response(Response::new(())).await?;
    while let Some(mut piece) = recv.recv_data().await? {
        let piece = piece.copy_to_bytes(piece.remaining());
        send.send_data(piece).await?;
    }
    if let Some(trailers) = recv.recv_trailers().await? {
        send.send_trailers(trailers).await?;
    }
    seen.whole.fetch_add(1, Ordering::Relaxed);
    send.finish().await
}

/// Sends until the client refuses more.
async fn endless<C: Http>(mut stream: Stream<C>, seen: Seen) -> Result<(), StreamError> {
    stream.send_response(Response::new(())).await?;
    let frame = Bytes::from(vec![7; FRAME]);
    loop {
        match stream.send_data(frame.clone()).await {
            Ok(()) => seen.accepted.fetch_add(FRAME as u64, Ordering::Relaxed),
            Err(StreamError::RemoteTerminate { code, .. }) => {
                seen.refused.store(code.value(), Ordering::Relaxed);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
    }
}

/// Answers, but does not read the request's body before the client ends it.
async fn ignore<C: Http>(stream: Stream<C>) -> Result<(), StreamError> {
    let (mut send, _unread) = stream.split();
    send.send_response(Response::new(())).await?;
    std::future::pending::<()>().await;
    send.finish().await
}

/// Panics between two frames of its answer.
async fn panics<C: Http>(mut stream: Stream<C>) -> Result<(), StreamError> {
    stream.send_response(Response::new(())).await?;
    stream.send_data(pattern(FRAME)).await?;
    panic!("code {} should reach the client", Code::H3_REQUEST_CANCELLED);
}
