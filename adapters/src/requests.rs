//! The requests of one connection.

use std::{future::poll_fn, pin::pin, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt;
use rc3_h3::h3::{
    error::{Code, ConnectionError},
    server::{self, RequestResolver},
};
use tokio::{task::JoinSet, time};

use crate::{
    FIELD_SECTION_MAX,
    body::Incoming,
    outgoing::{Outgoing, SendError, remove_connection_fields},
    service::HttpService,
    transport::Transport,
};

/// How often a connection whose client has announced its end is checked for that end.
const CLOSE_CHECK: Duration = Duration::from_millis(50);

/// Answers the requests of one connection with `service`, until the client closes it or `shutdown` resolves. Cookies that
/// a client has split are joined.
///
/// Then the client gets a GOAWAY frame (RFC 9114 §5.2), further requests are rejected, and those that were accepted have
/// `limit` to complete. The connection is closed as soon as the client closes it, or after `limit`: h3 closes at once, so
/// an earlier close could lose the end of a response.
///
/// # Errors
/// The [`ConnectionError`] that ended the connection, except the client's `H3_NO_ERROR`.
///
/// # Panics
/// Outside of a tokio runtime with a clock.
pub async fn serve_connection<T, S>(
    transport: T,
    service: S,
    shutdown: impl Future<Output = ()>,
    limit: Duration,
) -> Result<(), ConnectionError>
where
    T: Transport,
    S: HttpService,
{
    serve_requests(transport, service, || (), shutdown, limit).await
}

/// [`serve_connection`], with a value for the time of each request.
pub(crate) async fn serve_requests<T, S, U>(
    transport: T,
    service: S,
    in_use: impl Fn() -> U,
    shutdown: impl Future<Output = ()>,
    limit: Duration,
) -> Result<(), ConnectionError>
where
    T: Transport,
    S: HttpService,
    U: Send + 'static,
{
    let mut shutdown = pin!(shutdown);
    let mut builder = server::builder();
    let http = tokio::select! {
        built = builder.max_field_section_size(FIELD_SECTION_MAX).build(transport) => built?,
        // A client may never allow h3's own streams. It has no request yet.
        () = &mut shutdown => return Ok(()),
    };
    let mut requests = Requests { http, running: JoinSet::new() };
    let served = tokio::select! {
        served = requests.serve(service, in_use) => served,
        () = &mut shutdown => Ok(()),
    };
    let ended = match served {
        Ok(()) => time::timeout(limit, requests.drain()).await.unwrap_or(Ok(())),
        Err(error) => Err(error),
    };
    ended.or_else(|error| if error.is_h3_no_error() { Ok(()) } else { Err(error) })
}

/// A connection and its unanswered requests. Those that remain when it is dropped are cancelled.
struct Requests<T: Transport> {
    http: server::Connection<T, Bytes>,
    running: JoinSet<()>,
}

impl<T: Transport> Requests<T> {
    /// Accepts requests until the client sends a GOAWAY frame.
    async fn serve<S, U>(&mut self, service: S, in_use: impl Fn() -> U) -> Result<(), ConnectionError>
    where
        S: HttpService,
        U: Send + 'static,
    {
        while let Some(resolver) = self.http.accept().await? {
            while self.running.try_join_next().is_some() {}
            let (service, in_use) = (service.clone(), in_use());
            self.running.spawn(async move {
                let _in_use = in_use;
                // The client has the code of the error; the connection serves its other requests.
                let _ = respond(resolver, service).await;
            });
        }
        Ok(())
    }

    /// Rejects further requests until the client closes.
    async fn drain(&mut self) -> Result<(), ConnectionError> {
        // h3 counts from the last request accepted, a GOAWAY frame names the first that is not.
        self.http.shutdown(1).await?;
        loop {
            match self.http.accept().await? {
                Some(resolver) => _ = self.running.spawn(reject(resolver)),
                // Every response has been handed to the transport, but perhaps not delivered.
                None => time::sleep(CLOSE_CHECK).await,
            }
        }
    }
}

async fn respond<T, S>(resolver: RequestResolver<T, Bytes>, mut service: S) -> Result<(), SendError>
where
    T: Transport,
    S: HttpService,
{
    let (mut request, stream) = resolver.resolve_request().await?;
    join_cookies(request.headers_mut());
    let (send, recv) = stream.split();
    let mut reply = Outgoing::new(send);
    let request = request.map(|()| Incoming::new(recv, None).boxed_unsync());
    let responded = match poll_fn(|cx| service.poll_ready(cx)).await {
        Ok(()) => service.call(request).await,
        Err(error) => Err(error),
    };
    match responded {
        Ok(response) => {
            let (mut parts, body) = response.into_parts();
            remove_connection_fields(&mut parts.headers);
            reply.stream.send_response(Response::from_parts(parts, ())).await?;
            reply.send(body).await
        }
        Err(error) => {
            reply.abort(Code::H3_INTERNAL_ERROR);
            Err(SendError::Body(error.into()))
        }
    }
}

/// Clients may split the field. An application that is not only for HTTP/3 knows one (RFC 9114 §4.2.1).
fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<_> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1 {
        // All bytes of values are allowed in a value.
        if let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
            headers.insert(header::COOKIE, joined);
        }
    }
}

async fn reject<T: Transport>(resolver: RequestResolver<T, Bytes>) {
    if let Ok((_, mut stream)) = resolver.resolve_request().await {
        stream.stop_sending(Code::H3_REQUEST_REJECTED);
        stream.stop_stream(Code::H3_REQUEST_REJECTED);
    }
}
