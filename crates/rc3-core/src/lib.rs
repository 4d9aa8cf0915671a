//! Sans-IO machines of the RC3 transport: QUIC as the primary loop from the first byte up, and beside it the RLP
//! loop from the last byte down at worse and worse priority (RC3, NSDI 2014).
//!
//! [`Endpoint`] holds the connections of one UDP port; [`Connection`] routes between the primary, the RLP loop and
//! the streams. Nothing here touches a socket, a clock or a task: time and datagrams come in as arguments, and
//! what should happen comes out of `poll_*`. Most programs want `rc3-net`, which drives this over tokio.
#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests need some instant to start from"))]

mod config;
mod error;
mod event;
#[doc(hidden)]
pub mod internals;
mod laws;
mod machines;
mod quic;
mod seams;
#[cfg(feature = "simulation")]
pub mod simulation;
mod stats;
mod structures;
mod transmit;
pub mod units;
mod wire;

pub use config::{ClientConfig, Congestion, RlpMode, ServerConfig, TransportConfig};
pub use error::{
    ClosedStream, FinishError, PeerMisbehaved, ReadError, SendDatagramError, SourceError, WriteError,
};
pub use event::Event;
#[cfg(feature = "kickass")]
pub use kickass::endpoint::{Cause as TcpCause, Mode as KickAssMode};
pub use laws::{
    clock::ClockStats,
    guard::{GuardStats, Verdict},
    ladder::Ladder,
    verdicts::{DestinationVerdict, KnownPath, Pace},
};
pub use machines::{
    connection::Connection,
    endpoint::{DatagramMeta, Drained, Endpoint, EndpointEvent, IncomingStats},
    stream::{recv::Chunk, source::SourceRead},
};
pub use quic::{
    AckFrequencyConfig, ApplicationClose, ConnectError, ConnectionClose, ConnectionError, ConnectionHandle,
    ConnectionId, Dir, HandshakeTokenKey, IdleTimeout, MtuDiscoveryConfig, NoneTokenStore, RttEstimator,
    Side, StreamId, TokenLog, TokenMemoryCache, TokenReuseError, TokenStore, TransportError,
    TransportErrorCode, ValidationTokenConfig, VarInt, VarIntBoundsExceeded, congestion,
};
#[cfg(feature = "qlog")]
pub use seams::qlog::Qlog;
pub use seams::{
    primary::quinn::{ConnectFailed, HandshakeData, Incoming},
    tls::{
        ClientCrypto, ConfigError, NoInitialCipherSuite, QuicClientConfig, QuicServerConfig, ServerCrypto,
    },
};
pub use stats::{ConnectionStats, LevelStats, PathStats, ReceivedStats, SentStats};
#[cfg(feature = "kickass")]
pub use stats::{KickAssStats, SwitchCounts};
pub use transmit::{BATCH_BYTES_MAX, Transmit};

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
