//! The receiving part of a stream.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h3::quic::{self, StreamErrorIncoming, StreamId};

use crate::{
    error::{read_failed, refused, stream_id, var_int},
    exchange::Exchange,
    guard::{Guard, Refused, Scope},
};

/// Most chunks that are read without a byte for h3, until other tasks may run.
const CHUNKS_MAX: usize = 32;

/// A stream to read from, which passes only well-formed frames of bounded length to h3.
///
/// It holds one chunk and at most one such frame: what h3 has not asked for stays in the transport, where flow control
/// bounds it.
#[derive(Debug)]
pub struct RecvStream {
    stream: rc3_net::RecvStream,
    connection: rc3_net::Connection,
    guard: Guard,
    exchange: Exchange,
    /// Bytes of the transport that the guard has not seen.
    input: Bytes,
}

impl RecvStream {
    pub(crate) fn new(
        stream: rc3_net::RecvStream,
        connection: rc3_net::Connection,
        guard: Guard,
        exchange: Exchange,
    ) -> Self {
        Self { stream, connection, guard, exchange, input: Bytes::new() }
    }

    fn refuse(&mut self, reason: Refused) -> StreamErrorIncoming {
        self.input.clear();
        self.exchange.refuse(reason);
        let code = var_int(reason.code.value());
        match reason.scope {
            Scope::Connection => self.connection.close(code, reason.reason.as_bytes()),
            // A stream that has ended anyway needs no stop.
            Scope::Stream => _ = self.stream.stop(code),
        }
        refused(reason)
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        if let Some(reason) = self.exchange.refused() {
            return Poll::Ready(Err(refused(reason)));
        }
        if self.exchange.allows_any_content() {
            self.guard.allow_any_content();
        }
        for _ in 0..CHUNKS_MAX {
            match self.guard.next(&mut self.input) {
                Ok(None) => {}
                Ok(passed) => return Poll::Ready(Ok(passed)),
                Err(reason) => return Poll::Ready(Err(self.refuse(reason))),
            }
            match ready!(self.stream.poll_read_chunk(cx, usize::MAX, true)).map_err(read_failed)? {
                Some(chunk) => self.input = chunk.bytes,
                None => {
                    let ended = self.guard.end();
                    return Poll::Ready(ended.map(|()| None).map_err(|reason| self.refuse(reason)));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn stop_sending(&mut self, error_code: u64) {
        // A stream that has ended anyway needs no stop.
        let _ = self.stream.stop(var_int(error_code));
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.stream.id())
    }
}
