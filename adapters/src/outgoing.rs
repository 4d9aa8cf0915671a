//! Bodies that are sent.

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use rc3_h3::h3::{
    client,
    error::{Code, StreamError},
    quic, server,
};

use crate::BoxError;

/// Why a message was not sent completely, or not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The stream or the connection ended first.
    #[error("the stream ended: {0}")]
    Stream(#[from] StreamError),
    /// The body to send failed, so the stream was reset.
    #[error("the body failed: {0}")]
    Body(BoxError),
    /// Neither the URI nor the field `Host` names a server, so nothing was sent.
    #[error("the request has no authority: give it a URI like https://host/path")]
    NoAuthority,
}

/// The sending half of either side.
pub(crate) trait Transmit: Send {
    fn data(&mut self, data: Bytes) -> impl Future<Output = Result<(), StreamError>> + Send;
    fn trailers(&mut self, trailers: HeaderMap) -> impl Future<Output = Result<(), StreamError>> + Send;
    fn end(&mut self) -> impl Future<Output = Result<(), StreamError>> + Send;
    fn reset(&mut self, code: Code);
}

/// The two types of h3 have the same methods, but no trait for them.
macro_rules! transmit {
    ($side:ident) => {
        impl<S: quic::SendStream<Bytes> + Send> Transmit for $side::RequestStream<S, Bytes> {
            async fn data(&mut self, data: Bytes) -> Result<(), StreamError> {
                self.send_data(data).await
            }

            async fn trailers(&mut self, trailers: HeaderMap) -> Result<(), StreamError> {
                self.send_trailers(trailers).await
            }

            async fn end(&mut self) -> Result<(), StreamError> {
                self.finish().await
            }

            fn reset(&mut self, code: Code) {
                self.stop_stream(code);
            }
        }
    };
}

transmit!(server);
transmit!(client);

/// A message that is being sent. A stream that is dropped ends like a complete one, so the message is cancelled unless
/// it was sent to its end.
pub(crate) struct Outgoing<T: Transmit> {
    pub(crate) stream: T,
    is_over: bool,
}

impl<T: Transmit> Outgoing<T> {
    pub(crate) fn new(stream: T) -> Self {
        Self { stream, is_over: false }
    }

    /// Sends the body, its trailers and the end of the stream.
    pub(crate) async fn send<B>(mut self, body: B) -> Result<(), SendError>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError> + Send>,
    {
        let mut body = pin!(body);
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    self.abort(Code::H3_INTERNAL_ERROR);
                    return Err(SendError::Body(error.into()));
                }
            };
            match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => self.stream.data(data).await?,
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        self.stream.trailers(trailers).await?;
                    }
                }
            }
        }
        self.stream.end().await?;
        self.is_over = true;
        Ok(())
    }

    /// Resets the stream.
    pub(crate) fn abort(&mut self, code: Code) {
        self.stream.reset(code);
        self.is_over = true;
    }
}

impl<T: Transmit> Drop for Outgoing<T> {
    fn drop(&mut self) {
        if !self.is_over {
            self.abort(Code::H3_REQUEST_CANCELLED);
        }
    }
}

/// Removes the fields of HTTP/1.1 connections, which make a message of HTTP/3 malformed (RFC 9114 §4.2).
pub(crate) fn remove_connection_fields(headers: &mut HeaderMap) {
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}
