//! Sending on a stream.

use std::io;

use rc3_core::{ClosedStream, ConnectionError, VarInt};
use thiserror::Error;

/// Why a stream accepts no bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The peer stopped reading the stream; its code.
    #[error("sending stopped by peer: error {0}")]
    Stopped(VarInt),
    /// The connection is gone.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// Finished or reset already.
    #[error("closed stream")]
    ClosedStream,
    /// The stream was opened before the handshake was complete, and the server rejected that: it does not know the
    /// stream.
    #[error("0-RTT rejected")]
    ZeroRttRejected,
}

impl From<ClosedStream> for WriteError {
    fn from(ClosedStream: ClosedStream) -> Self {
        Self::ClosedStream
    }
}

impl From<StoppedError> for WriteError {
    fn from(error: StoppedError) -> Self {
        match error {
            StoppedError::ConnectionLost(error) => Self::ConnectionLost(error),
            StoppedError::ZeroRttRejected => Self::ZeroRttRejected,
        }
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match &error {
            WriteError::Stopped(_) | WriteError::ZeroRttRejected => io::ErrorKind::ConnectionReset,
            WriteError::ConnectionLost(_) | WriteError::ClosedStream => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

/// Why waiting for the end of a sending stream failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoppedError {
    /// The connection is gone.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was opened before the handshake was complete, and the server rejected that: it does not know the
    /// stream.
    #[error("0-RTT rejected")]
    ZeroRttRejected,
}

impl From<StoppedError> for io::Error {
    fn from(error: StoppedError) -> Self {
        let kind = match &error {
            StoppedError::ZeroRttRejected => io::ErrorKind::ConnectionReset,
            StoppedError::ConnectionLost(_) => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}
