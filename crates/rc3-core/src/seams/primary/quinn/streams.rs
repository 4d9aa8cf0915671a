//! The streams of a connection: opening and accepting, writing and reading.

use bytes::Bytes;
use quinn_proto as quic;

use super::Quic;
use crate::{
    error::ReadError,
    laws::primary_window::Waiting,
    quic::{Dir, StreamId, VarInt, WriteError},
    seams::primary::PrimaryWriter,
};

impl PrimaryWriter for Quic {
    fn write(&mut self, id: StreamId, chunks: &mut [Bytes]) -> Result<usize, WriteError> {
        self.waiting = Waiting::ForPacer;
        Ok(self.conn.send_stream(id).write_chunks(chunks)?.bytes)
    }

    fn finish(&mut self, id: StreamId) {
        self.waiting = Waiting::ForPacer;
        // Fails only for a stream that has already ended.
        let _ = self.conn.send_stream(id).finish();
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

    /// Abandons the rest of a stream, with the application's code.
    pub(crate) fn reset(&mut self, id: StreamId, code: VarInt) {
        self.waiting = Waiting::ForPacer;
        // Fails only for a stream that has already ended.
        let _ = self.conn.send_stream(id).reset(code);
    }

    /// Appends the next bytes of a stream with their offsets to `chunks`, in order or the lowest available, until they
    /// are `max` bytes or more. Returns whether there may be more; `false` at the end. A stream is always read in the same
    /// way.
    ///
    /// # Errors
    /// [`ReadError::Blocked`] until more have arrived, [`ReadError::Reset`] if the peer reset the rest,
    /// [`ReadError::ClosedStream`] if the stream was never opened, or read to its end already.
    pub(crate) fn read(
        &mut self,
        id: StreamId,
        max: usize,
        ordered: bool,
        chunks: &mut Vec<(u64, Bytes)>,
    ) -> Result<bool, ReadError> {
        let mut stream = self.conn.recv_stream(id);
        let mut reader = stream.read(ordered).map_err(|_| ReadError::ClosedStream)?;
        let mut left = max;
        while left > 0 {
            match reader.next(left) {
                Ok(Some(chunk)) => {
                    left -= chunk.bytes.len();
                    chunks.push((chunk.offset, chunk.bytes));
                }
                Ok(None) => return Ok(false),
                Err(quic::ReadError::Blocked) => return Err(ReadError::Blocked),
                Err(quic::ReadError::Reset(code)) => return Err(ReadError::Reset(code)),
            }
        }
        Ok(true)
    }

    /// Signals to the peer that this stream is no longer read.
    pub(crate) fn stop(&mut self, id: StreamId, code: VarInt) {
        // Fails only for a stream that is already closed.
        let _ = self.conn.recv_stream(id).stop(code);
    }
}
