//! The receiving part of a stream.

use std::task::{Context, Poll};

use bytes::Bytes;
use h3::quic::{self, StreamErrorIncoming, StreamId};

use crate::error::{read_failed, stream_id, var_int};

/// A stream to read from. It holds no data: what h3 has not asked for stays in the transport, where flow control bounds
/// it.
#[derive(Debug)]
pub struct RecvStream(rc3_net::RecvStream);

impl RecvStream {
    pub(crate) fn new(stream: rc3_net::RecvStream) -> Self {
        Self(stream)
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let read = self.0.poll_read_chunk(cx, usize::MAX, true);
        read.map_ok(|chunk| chunk.map(|chunk| chunk.bytes)).map_err(read_failed)
    }

    fn stop_sending(&mut self, error_code: u64) {
        // A stream that has ended anyway needs no stop.
        let _ = self.0.stop(var_int(error_code));
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.0.id())
    }
}
