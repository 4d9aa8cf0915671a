//! Errors by what was attempted. The names are quinn's, so that programs written for it match on the same.

use std::{io, net::SocketAddr};

use rc3_core::{ClosedStream, ConfigError, ConnectFailed, ConnectionError, VarInt};
use thiserror::Error;

/// Why a connection could not even be tried.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint was closed, or its runtime has ended.
    #[error("endpoint stopping")]
    EndpointStopping,
    /// Too many connections exist.
    #[error("no connection ids left, close some connections")]
    CidsExhausted,
    /// The server name is neither a domain name nor an address.
    #[error("invalid server name: {0}")]
    InvalidServerName(String),
    /// Port 0, an unspecified address, or an IPv6 address on an IPv4 socket.
    #[error("invalid remote address: {0}")]
    InvalidRemoteAddress(SocketAddr),
    /// Neither `set_default_client_config` nor `connect_with` named one.
    #[error("no default client config, set one or use connect_with")]
    NoDefaultClientConfig,
    /// The endpoint does not speak the QUIC version asked for.
    #[error("unsupported QUIC version")]
    UnsupportedVersion,
    /// The TLS settings cannot work with QUIC.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl From<ConnectFailed> for ConnectError {
    fn from(error: ConnectFailed) -> Self {
        use rc3_core::ConnectError as Core;
        match error {
            ConnectFailed::Connect(error) => match error {
                Core::EndpointStopping => Self::EndpointStopping,
                Core::CidsExhausted => Self::CidsExhausted,
                Core::InvalidServerName(name) => Self::InvalidServerName(name),
                Core::InvalidRemoteAddress(address) => Self::InvalidRemoteAddress(address),
                Core::NoDefaultClientConfig => Self::NoDefaultClientConfig,
                Core::UnsupportedVersion => Self::UnsupportedVersion,
            },
            ConnectFailed::Config(error) => Self::Config(error),
        }
    }
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::EndpointStopping => io::ErrorKind::NotConnected,
            ConnectError::CidsExhausted => io::ErrorKind::AddrNotAvailable,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

/// Why a stream takes no bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The peer no longer reads the stream; its code.
    #[error("sending stopped by peer: error {0}")]
    Stopped(VarInt),
    /// The connection is gone.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
    /// Finished or reset already.
    #[error("closed stream")]
    ClosedStream,
    /// The stream was opened before the handshake was complete, and the server rejected 0-RTT: it does not know the
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
    /// The stream was opened before the handshake was complete, and the server rejected 0-RTT: it does not know the
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

/// Why a stream yields no bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The peer reset the stream with this code.
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
    /// The stream was opened before the handshake was complete, and the server rejected 0-RTT: it does not know the
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
    /// The stream ended after so many bytes.
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
    /// More bytes than the caller wanted.
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
    /// The stream was opened before the handshake was complete, and the server rejected 0-RTT: it does not know the
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

/// Why an application datagram was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SendDatagramError {
    /// The peer takes no datagrams.
    #[error("datagrams not supported by peer")]
    UnsupportedByPeer,
    /// Datagrams are off here: see
    /// [`TransportConfig::datagram_receive_buffer_size`](crate::TransportConfig::datagram_receive_buffer_size).
    #[error("datagram support disabled")]
    Disabled,
    /// Longer than [`Connection::max_datagram_size`](crate::Connection::max_datagram_size), or than the buffer.
    #[error("datagram too large")]
    TooLarge,
    /// The connection is gone.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
}

/// No keying material: the handshake is not complete, or more than 255 hashes of output were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no keying material, complete the handshake and ask for less than 8 KB")]
pub struct ExportKeyingMaterialError;
