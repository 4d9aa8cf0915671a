//! Errors by operation: quinn's, and two of the same shape that also convert to [`io::Error`].

use std::io;

pub use quinn::{
    ConnectError, ReadError, ResetError, SendDatagramError, StoppedError, WriteError,
    crypto::ExportKeyingMaterialError,
};
use thiserror::Error;

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
