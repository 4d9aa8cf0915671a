//! Reading from a stream.

use std::io;

use rc3_core::{ConnectionError, VarInt};
use thiserror::Error;

/// Why a stream yields no bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The peer reset the stream; its code.
    #[error("stream reset by peer: error {0}")]
    Reset(VarInt),
    /// The connection is gone.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// Stopped already.
    #[error("closed stream")]
    ClosedStream,
    /// An ordered read after an unordered one.
    #[error("ordered read after unordered read")]
    IllegalOrderedRead,
    /// The stream was opened before the handshake was complete, and the server rejected that: it does not know the
    /// stream.
    #[error("0-RTT rejected")]
    ZeroRttRejected,
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Reset(_) | ReadError::ZeroRttRejected => io::ErrorKind::ConnectionReset,
            ReadError::ConnectionLost(_) | ReadError::ClosedStream => io::ErrorKind::NotConnected,
            ReadError::IllegalOrderedRead => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

/// Why a buffer could not be filled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadExactError {
    /// The stream ended after this many bytes.
    #[error("stream finished early ({0} bytes read)")]
    FinishedEarly(usize),
    /// See [`ReadError`].
    #[error(transparent)]
    ReadError(#[from] ReadError),
}

impl From<ReadExactError> for io::Error {
    fn from(error: ReadExactError) -> Self {
        match error {
            ReadExactError::FinishedEarly(_) => Self::new(io::ErrorKind::UnexpectedEof, error),
            ReadExactError::ReadError(error) => error.into(),
        }
    }
}

/// Why a stream could not be read to its end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadToEndError {
    /// See [`ReadError`].
    #[error("read error: {0}")]
    Read(#[from] ReadError),
    /// More bytes than the caller's limit.
    #[error("stream too long")]
    TooLong,
}

impl From<ReadToEndError> for io::Error {
    fn from(error: ReadToEndError) -> Self {
        match error {
            ReadToEndError::TooLong => Self::new(io::ErrorKind::InvalidData, error),
            ReadToEndError::Read(error) => error.into(),
        }
    }
}

/// Why waiting for a reset failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResetError {
    /// The connection is gone.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was opened before the handshake was complete, and the server rejected that: it does not know the
    /// stream.
    #[error("0-RTT rejected")]
    ZeroRttRejected,
}

impl From<ResetError> for ReadError {
    fn from(error: ResetError) -> Self {
        match error {
            ResetError::ConnectionLost(error) => Self::ConnectionLost(error),
            ResetError::ZeroRttRejected => Self::ZeroRttRejected,
        }
    }
}

impl From<ResetError> for io::Error {
    fn from(error: ResetError) -> Self {
        let kind = match &error {
            ResetError::ZeroRttRejected => io::ErrorKind::ConnectionReset,
            ResetError::ConnectionLost(_) => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}
