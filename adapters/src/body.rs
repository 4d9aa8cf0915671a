//! Bodies that are received.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use rc3_h3::h3::{
    client,
    error::{Code, StreamError},
    server,
};
use tokio::task::AbortHandle;

use crate::transport::Receiver;

/// A body from the other side: of a request at a server, of a response at a client.
pub type Body = UnsyncBoxBody<Bytes, StreamError>;

/// The receiving half of either side.
pub(crate) trait Receive: Send + 'static {
    /// Signals that the rest is not wanted.
    const UNWANTED: Code;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>>;
    fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<HeaderMap>, StreamError>>;
    fn stop(&mut self, code: Code);
}

/// The two types of h3 have the same methods, but no trait for them.
macro_rules! receive {
    ($side:ident, $unwanted:expr) => {
        impl<R> Receive for $side::RequestStream<R, Bytes>
        where
            R: Receiver,
        {
            const UNWANTED: Code = $unwanted;

            fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
                let data = ready!(self.poll_recv_data(cx))?;
                Poll::Ready(Ok(data.map(|mut data| data.copy_to_bytes(data.remaining()))))
            }

            fn poll_trailers(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Option<HeaderMap>, StreamError>> {
                self.poll_recv_trailers(cx)
            }

            fn stop(&mut self, code: Code) {
                if R::STOPS_READS {
                    self.stop_sending(code);
                }
            }
        }
    };
}

receive!(server, Code::H3_NO_ERROR);
receive!(client, Code::H3_REQUEST_CANCELLED);

/// Where in a message the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Data,
    Trailers,
    /// Everything has arrived, or an error has.
    End,
}

/// The body that a stream receives.
pub(crate) struct Incoming<R: Receive> {
    stream: R,
    part: Part,
    /// The task that sends the request's body, at a client.
    upload: Option<AbortHandle>,
}

impl<R: Receive> Incoming<R> {
    pub(crate) fn new(stream: R, upload: Option<AbortHandle>) -> Self {
        Self { stream, part: Part::Data, upload }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, StreamError>> {
        if self.part == Part::Data {
            if let Some(data) = ready!(self.stream.poll_data(cx))? {
                return Poll::Ready(Ok(Some(Frame::data(data))));
            }
            self.part = Part::Trailers;
        }
        if self.part == Part::Trailers {
            let trailers = ready!(self.stream.poll_trailers(cx))?;
            self.part = Part::End;
            return Poll::Ready(Ok(trailers.map(Frame::trailers)));
        }
        Poll::Ready(Ok(None))
    }
}

impl<R: Receive + Unpin> http_body::Body for Incoming<R> {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let frame = ready!(self.poll_part(cx));
        if frame.is_err() {
            self.part = Part::End;
        }
        Poll::Ready(frame.transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.part == Part::End
    }
}

impl<R: Receive> Drop for Incoming<R> {
    fn drop(&mut self) {
        if self.part != Part::End {
            self.stream.stop(R::UNWANTED);
            if let Some(upload) = &self.upload {
                upload.abort();
            }
        }
    }
}
