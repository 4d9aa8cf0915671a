//! The streams of a connection: opening and accepting, writing and reading.

use bytes::Bytes;
use quinn_proto as quic;
use thiserror::Error;

use super::Quic;
use crate::{
    laws::primary_window::Waiting,
    quic::{Dir, StreamId, VarInt},
    seams::primary::{End, PrimaryWriter},
};

/// Why bytes were not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum WriteError {
    /// Flow control: [`PrimaryEvent::Writable`] follows.
    #[error("blocked by flow control")]
    Blocked,
    /// The peer no longer reads the stream.
    #[error("stopped by peer: code {0}")]
    Stopped(VarInt),
    /// Never opened, or ended already.
    #[error("closed stream")]
    Closed,
}

/// Why no more bytes of a stream were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// The requested number was read.
    More,
    /// No more have arrived: [`PrimaryEvent::Readable`] follows.
    Blocked,
    /// All were read.
    Finished,
    /// The peer reset the rest, with its code.
    Reset(VarInt),
    /// Never opened, or read to its end already.
    Closed,
}

impl PrimaryWriter for Quic {
    fn write(&mut self, id: StreamId, chunks: &mut [Bytes]) -> Result<usize, WriteError> {
        self.waiting = Waiting::ForPacer;
        match self.conn.send_stream(id).write_chunks(chunks) {
            Ok(written) => Ok(written.bytes),
            Err(quic::WriteError::Blocked) => Err(WriteError::Blocked),
            Err(quic::WriteError::Stopped(code)) => Err(WriteError::Stopped(code)),
            Err(quic::WriteError::ClosedStream) => Err(WriteError::Closed),
        }
    }

    fn end(&mut self, id: StreamId, how: End) {
        self.waiting = Waiting::ForPacer;
        let mut stream = self.conn.send_stream(id);
        // Both fail only for a stream that has already ended, which is the requested state.
        match how {
            End::Finish => drop(stream.finish()),
            End::Reset(code) => drop(stream.reset(code)),
        }
    }
}

impl Quic {
    /// Opens a stream, or `None` while the peer's limit is reached.
    pub(crate) fn open(&mut self, dir: Dir) -> Option<StreamId> {
        self.conn.streams().open(dir)
    }

    /// The next stream the peer opened, in order.
    pub(crate) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.conn.streams().accept(dir)
    }

    /// Appends the next bytes of a stream with their offsets to `chunks`, in order or the lowest available, until they
    /// are `max` bytes or more, and returns why it stopped. A stream is always read in the same way.
    pub(crate) fn read(
        &mut self,
        id: StreamId,
        max: usize,
        ordered: bool,
        chunks: &mut Vec<(u64, Bytes)>,
    ) -> ReadEnd {
        let mut stream = self.conn.recv_stream(id);
        let Ok(mut reader) = stream.read(ordered) else { return ReadEnd::Closed };
        let mut left = max;
        while left > 0 {
            match reader.next(left) {
                Ok(Some(chunk)) => {
                    left -= chunk.bytes.len();
                    chunks.push((chunk.offset, chunk.bytes));
                }
                Ok(None) => return ReadEnd::Finished,
                Err(quic::ReadError::Blocked) => return ReadEnd::Blocked,
                Err(quic::ReadError::Reset(code)) => return ReadEnd::Reset(code),
            }
        }
        ReadEnd::More
    }

    /// Signals to the peer that this stream is no longer read.
    pub(crate) fn stop(&mut self, id: StreamId, code: VarInt) {
        // Fails only for a stream that is already closed.
        let _ = self.conn.recv_stream(id).stop(code);
    }
}
