//! Streams that end with bytes of a source, such as a file: chooses what to read, and accepts it.

use bytes::Bytes;

use super::Connection;
use crate::{
    error::SourceError,
    machines::stream::send::source::SourceRead,
    quic::{StreamId, WriteError},
    wire::varint::VARINT_MAX,
};

impl Connection {
    /// Ends a stream with `len` bytes that are read as the loops need them: both know the whole length at once, and RLP
    /// starts at the true end. They do not count against the send window; the memory for them is bounded.
    /// [`Self::next_read`] returns what to read.
    ///
    /// # Errors
    /// [`SourceError::TooLong`] if the stream would exceed 2⁶² - 1 bytes, [`SourceError::Write`] if the stream accepts
    /// no bytes.
    pub fn attach_source(&mut self, id: StreamId, len: u64) -> Result<(), SourceError> {
        let stream = self.streams.send(id).ok_or(WriteError::ClosedStream)?;
        stream.writable()?;
        if stream.ledger.end().checked_add(len).is_none_or(|end| end > VARINT_MAX) {
            return Err(SourceError::TooLong);
        }
        self.note_busy_period();
        self.streams.with_send(id, |stream| {
            stream.attach_source(len);
            stream.finish()
        });
        self.streams.queue_for_rlp(id);
        Ok(())
    }

    /// What to read from the source of a stream, for [`Self::supply`]. Call it again after each
    /// [`crate::Event::Writable`].
    ///
    /// # Errors
    /// [`WriteError::Stopped`] if the peer has stopped reading, [`WriteError::ClosedStream`] once the stream was
    /// delivered or reset.
    pub fn next_read(&mut self, id: StreamId) -> Result<SourceRead, WriteError> {
        match self.streams.send(id).map(|stream| stream.stopped) {
            Some(None) => self.streams.next_read(id).ok_or(WriteError::ClosedStream),
            Some(Some(code)) => Err(WriteError::Stopped(code)),
            None => Err(WriteError::ClosedStream),
        }
    }

    /// Bytes of all sources that are stored or requested.
    pub fn source_bytes(&self) -> u64 {
        self.streams.present
    }

    /// Accepts bytes at an offset of the source, as requested by [`Self::next_read`]. Bytes no longer needed are
    /// dropped.
    pub fn supply(&mut self, id: StreamId, offset: u64, data: Bytes) {
        self.streams.with_send(id, |stream| stream.supply(offset, data));
        self.streams.queue_for_rlp(id);
    }
}
