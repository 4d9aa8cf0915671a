//! HTTP/3 endpoints over rc3 or over quinn, and a server for both.
#![allow(dead_code, reason = "no test file uses all of it")]

pub(crate) mod app;
pub(crate) mod ends;
pub(crate) mod raw;

use std::{sync::Arc, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use h3::{client, error::StreamError, quic};
use http::{HeaderMap, Request, Response};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the tests need of either transport.
pub(crate) trait Http: Send + 'static
where
    Self: quic::Connection<
            Bytes,
            OpenStreams: quic::OpenStreams<
                Bytes,
                BidiStream = <Self as quic::OpenStreams<Bytes>>::BidiStream,
                SendStream = <Self as quic::OpenStreams<Bytes>>::SendStream,
            > + Clone
                             + Send
                             + Sync,
            RecvStream: Send,
        > + quic::OpenStreams<Bytes, SendStream: Send, BidiStream: Bidi>,
{
}

/// The streams of either transport.
pub(crate) trait Bidi: Send + 'static
where
    Self: quic::BidiStream<Bytes, SendStream: Send, RecvStream: Send + quic::RecvStream<Buf: Send>>
        + quic::RecvStream<Buf: Send>,
{
}

impl Bidi for rc3_h3::BidiStream<Bytes> {}
impl Bidi for h3_quinn::BidiStream<Bytes> {}
impl Http for rc3_h3::Connection {}
impl Http for h3_quinn::Connection {}

pub(crate) type Sender<C> = client::SendRequest<<C as quic::Connection<Bytes>>::OpenStreams, Bytes>;

/// A client whose connection runs until the last sender is dropped.
pub(crate) async fn client<C: Http>(quic: C) -> Sender<C> {
    let (mut driver, sender) = client::new(quic).await.unwrap();
    tokio::spawn(async move { driver.wait_idle().await });
    sender
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Response<()>,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

/// Sends a request while it receives the answer.
pub(crate) async fn ask<C: Http>(
    sender: &mut Sender<C>,
    request: Request<()>,
    body: Bytes,
    trailers: Option<HeaderMap>,
) -> Result<Answer, StreamError> {
    let (mut send, mut recv) = sender.send_request(request).await?.split();
    let sending = async {
        if !body.is_empty() {
            send.send_data(body).await?;
        }
        if let Some(trailers) = trailers {
            send.send_trailers(trailers).await?;
        }
        send.finish().await
    };
    let receiving = async {
        let head = recv.recv_response().await?;
        let mut body = BytesMut::new();
        while let Some(mut piece) = recv.recv_data().await? {
            body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
        }
        Ok(Answer { head, body: body.freeze(), trailers: recv.recv_trailers().await? })
    };
    // A server may answer before it has read the end of the request, and stop the rest (RFC 9114 §4.1).
    let (_, answer): (Result<(), StreamError>, _) = tokio::join!(sending, receiving);
    answer
}

pub(crate) async fn get<C: Http>(sender: &mut Sender<C>, path: &str) -> Result<Answer, StreamError> {
    ask::<C>(sender, request("GET", path), Bytes::new(), None).await
}

pub(crate) fn request(method: &str, path: &str) -> Request<()> {
    let uri = format!("https://{}{path}", rc3_sim::identity::SERVER_NAME);
    Request::builder().method(method).uri(uri).body(()).unwrap()
}

/// `len` bytes that differ by position.
pub(crate) fn pattern(len: usize) -> Bytes {
    (0..len).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 11) as u8).collect()
}

/// Runs `test` on several threads, but not forever.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("the test hangs") });
}

/// Waits until `condition` holds.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) type Counter = Arc<std::sync::atomic::AtomicU64>;
