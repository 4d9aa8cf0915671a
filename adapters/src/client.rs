//! Requests over one connection.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::BodyExt;
use rc3_h3::h3::{
    client::{self, SendRequest},
    error::ConnectionError,
    quic,
};
use tokio::task::JoinSet;
use tower_service::Service;

use crate::{
    BoxError, FIELD_SECTION_MAX,
    body::{Body, Incoming},
    outgoing::{Outgoing, SendError, remove_connection_fields},
    transport::Transport,
};

/// A client on one connection, as a tower service. URIs have a scheme and an authority: `https://host/path`.
///
/// Clones share the connection, which closes when the last clone and the last body are dropped. A response may arrive
/// while its request's body is still being sent. Interim responses are skipped.
///
/// The close does not wait for delivery: the end of a request that outlives its response can be lost, which is an error
/// of its body at the server.
pub struct Client<T: Transport> {
    sender: SendRequest<<T as quic::Connection<Bytes>>::OpenStreams, Bytes>,
}

impl<T: Transport> Client<T> {
    /// A client on an established connection.
    ///
    /// # Errors
    /// When the connection is already lost.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn new(transport: T) -> Result<Self, ConnectionError> {
        let mut builder = client::builder();
        let (mut driver, sender) = builder.max_field_section_size(FIELD_SECTION_MAX).build(transport).await?;
        tokio::spawn(async move { driver.wait_idle().await });
        Ok(Self { sender })
    }
}

impl<T: Transport> Clone for Client<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone() }
    }
}

impl<T: Transport> fmt::Debug for Client<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl<T, B> Service<Request<B>> for Client<T>
where
    T: Transport,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError> + Send> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = SendError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, SendError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        // Opening a stream waits for the server's limit.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut client = self.clone();
        Box::pin(async move { client.send(request).await })
    }
}

impl<T: Transport> Client<T> {
    async fn send<B>(&mut self, request: Request<B>) -> Result<Response<Body>, SendError>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError> + Send> + Send + 'static,
    {
        let (mut parts, body) = request.into_parts();
        remove_connection_fields(&mut parts.headers);
        // Of a wrong address h3 makes an error of the connection. The authority is the URI's (RFC 9114 §4.3.1).
        if parts.uri.authority().is_some() {
            parts.headers.remove(header::HOST);
        } else if !parts.headers.contains_key(header::HOST) {
            return Err(SendError::NoAuthority);
        }
        let (send, mut recv) = self.sender.send_request(Request::from_parts(parts, ())).await?.split();
        // Without a sender h3 closes the connection, with the bodies that are under way.
        let (sending, receiving) = (self.clone(), self.clone());
        // A server may stop the request's body and answer nevertheless (RFC 9114 §4.1); its answer is the result.
        let mut uploads = JoinSet::new();
        // Made here: a task that is aborted before it begins drops what it holds.
        let request = Outgoing::new(send);
        let upload = uploads.spawn(async move {
            let _open = sending;
            request.send(body).await
        });
        // Interim responses precede the response (RFC 9114 §4.1). h3 returns each, and a tower service has no place for them.
        let response = loop {
            let response = recv.recv_response().await?;
            if !response.status().is_informational() {
                break response;
            }
        };
        // Without a response the upload ends with this future.
        uploads.detach_all();
        let body = Incoming::new(recv, Some(upload)).map_frame(move |frame| {
            let _open = &receiving;
            frame
        });
        Ok(response.map(|()| body.boxed_unsync()))
    }
}
