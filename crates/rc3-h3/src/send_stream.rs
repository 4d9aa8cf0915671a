//! The sending part of a stream.

use std::{
    fmt, mem, slice,
    task::{Context, Poll, ready},
    thread,
};

use bytes::{Buf, Bytes};
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf},
};

use crate::{
    error::{refused, stream_id, var_int, write_failed},
    exchange::Exchange,
    guard,
};

/// Most bytes that are copied at once. A stream holds at most one such copy, in addition to the frame of the application.
const PIECE_MAX: usize = 64 * 1024;

/// A stream to send on.
pub struct SendStream<B: Buf> {
    stream: rc3_net::SendStream,
    /// The frame that is being sent.
    frame: Option<WriteBuf<B>>,
    /// Bytes taken from the frame that the transport has not accepted. The header and the beginning of the payload are
    /// one piece, so the transport is called once for a small frame.
    piece: Bytes,
    /// Whether there is nothing on the stream: neither a byte nor its end.
    is_blank: bool,
    exchange: Exchange,
    /// Whether the next piece is the first one of a request.
    is_request: bool,
}

impl<B: Buf> SendStream<B> {
    /// Of a stream in one direction.
    pub(crate) fn unidirectional(stream: rc3_net::SendStream) -> Self {
        Self::new(stream, Exchange::default(), false)
    }

    pub(crate) fn new(stream: rc3_net::SendStream, exchange: Exchange, is_request: bool) -> Self {
        Self { stream, frame: None, piece: Bytes::new(), is_blank: true, exchange, is_request }
    }

    /// Sends nothing more to a peer whose message is refused.
    fn check_refused(&mut self) -> Result<(), StreamErrorIncoming> {
        let Some(reason) = self.exchange.refused() else { return Ok(()) };
        quic::SendStream::<B>::reset(self, reason.code.value());
        Err(refused(reason))
    }
}

impl<B: Buf> fmt::Debug for SendStream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.check_refused()?;
        while let Some(frame) = &mut self.frame {
            if self.piece.is_empty() {
                self.piece = frame.copy_to_bytes(frame.remaining().min(PIECE_MAX));
                if mem::take(&mut self.is_request) && guard::allows_any_content(&self.piece) {
                    self.exchange.allow_any_content();
                }
            }
            while !self.piece.is_empty() {
                let written = self.stream.poll_write_chunks(cx, slice::from_mut(&mut self.piece));
                ready!(written).map_err(write_failed)?;
            }
            if !frame.has_remaining() {
                self.frame = None;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.frame.is_some() {
            let error = "the previous frame is not sent yet".to_string();
            let connection_error = ConnectionErrorIncoming::InternalError(error);
            return Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error });
        }
        self.frame = Some(data.into());
        self.is_blank = false;
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        self.is_blank = false;
        Poll::Ready(self.stream.finish().map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))))
    }

    fn reset(&mut self, reset_code: u64) {
        // The reason for all that fails afterwards.
        let reset_code = self.exchange.refused().map_or(reset_code, |reason| reason.code.value());
        // A stream that has ended anyway needs no reset.
        let _ = self.stream.reset(var_int(reset_code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.stream.id())
    }
}

impl<B: Buf> Drop for SendStream<B> {
    /// A stream that ends inside of a frame is an error of the whole connection (RFC 9114 §7.1), and a message that ends
    /// between two frames looks complete. Clients of h3 close the connection when a response ends before it began.
    fn drop(&mut self) {
        if self.check_refused().is_err() {
            return;
        }
        if self.is_blank || self.frame.is_some() || thread::panicking() {
            quic::SendStream::<B>::reset(self, Code::H3_REQUEST_CANCELLED.value());
        }
    }
}
