//! Sends from and receives into files, or anything else with random access, without holding the content in memory.
//!
//! The sender knows the whole length at once, so the primary loop takes bytes from the front while RLP starts at the
//! true end; both read bytes when they need them. The receiver writes bytes at their offsets on arrival, and bounds the
//! bytes waiting to be written. Reads and writes run on tokio's blocking threads.

use std::{fs::File, io, sync::Arc};

use rc3_core::{ConnectionError, VarInt};
use thiserror::Error;

mod receive;
mod send;

/// The code of a stream that is reset because its source failed or was dropped (ASCII `rc3`, then a byte).
pub const SOURCE_FAILED: VarInt = VarInt::from_u32(0x7263_3381);

/// The code a stream is stopped with because its sink failed.
pub const SINK_FAILED: VarInt = VarInt::from_u32(0x7263_3382);

/// A source of a file.
pub trait ReadAt: Send + Sync + 'static {
    /// Reads bytes from `offset` on into the front of `buf`; returns how many, 0 at the end. May block.
    ///
    /// # Errors
    /// When they cannot be read. [`io::ErrorKind::Interrupted`] means: try again.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// A sink for a file.
pub trait WriteAt: Send + Sync + 'static {
    /// Writes all of `bytes` at `offset`. Offsets come in any order, each byte once. May block.
    ///
    /// # Errors
    /// When they cannot be written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

#[cfg(unix)]
impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buf, offset)
    }
}

#[cfg(unix)]
impl WriteAt for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, offset)
    }
}

#[cfg(windows)]
impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, buf, offset)
    }
}

#[cfg(windows)]
impl WriteAt for File {
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match std::os::windows::fs::FileExt::seek_write(self, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl ReadAt for bytes::Bytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let len = buf.len().min(self.len() - from);
        buf[..len].copy_from_slice(&self[from..from + len]);
        Ok(len)
    }
}

impl<T: ReadAt> ReadAt for Arc<T> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        T::read_at(self, buf, offset)
    }
}

impl<T: WriteAt> WriteAt for Arc<T> {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        T::write_all_at(self, bytes, offset)
    }
}

/// Why a file was not sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SendFileError {
    /// The source could not be read. The stream was reset with [`SOURCE_FAILED`].
    #[error("cannot read the source at offset {offset}: {error}")]
    Read {
        /// Offset from the start of the source.
        offset: u64,
        /// The error of the source.
        error: io::Error,
    },
    /// The source ended here, earlier than announced. The stream was reset with [`SOURCE_FAILED`].
    #[error("the source ended early, at offset {0}")]
    Shrunk(u64),
    /// More bytes than a stream can carry; nothing was sent.
    #[error("exceeds the longest possible stream")]
    TooLong,
    /// The peer could not store it.
    #[error("the peer's sink failed")]
    SinkFailed,
    /// The peer stopped reading the stream; its code.
    #[error("sending stopped by peer: error {0}")]
    Stopped(VarInt),
    /// The connection is gone.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// Finished or reset already.
    #[error("closed stream")]
    ClosedStream,
}

/// Why a file was not received.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecvFileError {
    /// The sink could not be written. The stream was stopped with [`SINK_FAILED`].
    #[error("cannot write to the sink at offset {offset}: {error}")]
    Write {
        /// Offset from the start of the sink.
        offset: u64,
        /// The error of the sink.
        error: io::Error,
    },
    /// More bytes than the caller's limit. The stream was stopped with [`SINK_FAILED`].
    #[error("more bytes than expected")]
    TooLong,
    /// The peer could not read its source.
    #[error("the peer's source failed")]
    SourceFailed,
    /// The peer reset the stream; its code.
    #[error("stream reset by peer: error {0}")]
    Reset(VarInt),
    /// The connection is gone.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// Stopped or read to its end already; or opened in 0-RTT that the server rejected.
    #[error("closed stream")]
    ClosedStream,
}
