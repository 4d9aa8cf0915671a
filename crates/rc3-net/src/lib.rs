//! Async RC3 endpoints over tokio and Linux UDP sockets.
//!
//! The interface is quinn's, so a program written for quinn needs little more than another `use`: an
//! [`Endpoint`] connects and accepts, a [`Connection`] opens and accepts streams, a [`SendStream`] and a
//! [`RecvStream`] carry bytes. With a peer that does not support rc3, a connection is plain QUIC v1 with the same
//! interface. [`Stream`] and [`Listener`] are for programs that need a TCP-like byte stream.
//!
//! ```no_run
//! # async fn example(config: rc3_net::ClientConfig) -> Result<(), Box<dyn std::error::Error>> {
//! let mut endpoint = rc3_net::Endpoint::client("[::]:0".parse()?)?;
//! endpoint.set_default_client_config(config);
//! let connection = endpoint.connect("192.0.2.1:4433".parse()?, "example.org")?.await?;
//! let (mut send, mut recv) = connection.open_bi().await?;
//! send.write_all(b"hello").await?;
//! send.finish()?;
//! let answer = recv.read_to_end(1 << 20).await?;
//! # Ok(()) }
//! ```
//!
//! Differences from quinn: [`Connection::close_gracefully`] delivers all data before it closes, [`Endpoint::bind`] takes
//! [`EndpointOptions`], and [`Endpoint::set_server_config`] can fail. `docs/PORTING.md` in the repository lists all of
//! them.
//!
//! # Watching
//!
//! `tracing` events report connections (debug) and batches (trace). For a packet analyser, [`key_log`] writes the
//! TLS secrets of connections to the file in the environment variable `SSLKEYLOGFILE`. With the feature `qlog`,
//! `qlog::directory` logs the events of each connection; with the feature `metrics`, counters of both loops and of
//! the sockets go to the recorder that the program has installed for the `metrics` crate.
//!
//! # Features
//!
//! `qlog` and `metrics`: see above.
//! `log` passes events to the `log` crate, as in quinn. `ring` (default) or `aws-lc-rs`: the library of cryptography, see
//! [`crypto::crypto_provider`]. `bloom` (default): servers give out tokens by which returning clients validate their
//! address. `runtime-tokio` and `rustls-log` are quinn's names for what is always there; `rustls-ring` and
//! `rustls-aws-lc-rs` for the libraries.
#![deny(unsafe_code)]

mod bound;
mod connecting;
mod connection;
mod connection_handle;
mod datagram;
mod driver;
mod endpoint;
mod endpoint_ref;
mod error;
#[cfg(all(test, target_os = "linux", not(rc3_portable)))]
mod faulty;
mod handed_over;
mod incoming;
mod keeper;
mod listener;
#[cfg(feature = "metrics")]
mod metrics;
mod named_future;
mod open;
mod recv_stream;
mod relay;
mod runtime;
mod send_stream;
mod shared;
#[cfg(all(test, target_os = "linux", not(rc3_portable)))]
#[path = "../tests/common/skip.rs"]
mod skip;
mod slots;
mod state;
mod stream;
mod stream_ref;
mod sums;
mod sync;
mod takeover;
mod waiters;
mod wake;
mod workers;
mod zero_rtt;

pub mod file;
pub mod marks;
pub mod paths;
#[cfg(feature = "qlog")]
pub mod qlog;
pub mod socket;

pub use quinn::Written;
pub use quinn_udp as udp;
#[cfg(feature = "bloom")]
pub use rc3_core::BloomTokenLog;
pub use rc3_core::{
    AckFrequencyConfig, ApplicationClose, Chunk, ClientConfig, ClockStats, ClosedStream, ConfigError,
    Congestion, ConnectionClose, ConnectionError, ConnectionId, ConnectionIdGenerator, ConnectionStats,
    DestinationVerdict, Dir, EcnCodepoint, EndpointConfig, FrameStats, FrameType, GuardStats,
    HashedConnectionIdGenerator, IdleTimeout, IncomingStats, InvalidCid, KnownPath, Ladder, LadderError,
    LevelStats, MtuDiscoveryConfig, NoneTokenLog, NoneTokenStore, Pace, PathStats,
    RandomConnectionIdGenerator, ReceivedStats, RlpMode, RttEstimator, SentStats, ServerConfig, Side,
    StdSystemTime, StreamId, TimeSource, TokenLog, TokenMemoryCache, TokenReuseError, TokenStore,
    TransportConfig, TransportError, TransportErrorCode, UdpStats, ValidationTokenConfig, VarInt,
    VarIntBoundsExceeded, Verdict, WorkerHash, congestion,
    units::{Level, Rate},
};
pub use rc3_core::{KickAssMode, KickAssStats, SwitchCounts, TcpCause};
pub use rustls;

pub use self::{
    connecting::Connecting,
    connection_handle::Connection,
    datagram::{ReadDatagram, SendDatagram},
    endpoint::{Accept, Capabilities, Endpoint, EndpointOptions, EndpointStats},
    error::{
        ConnectError, ExportKeyingMaterialError, ReadError, ReadExactError, ReadToEndError, ResetError,
        SendDatagramError, StoppedError, WriteError,
    },
    handed_over::HandedOver,
    incoming::{Incoming, IncomingFuture, RetryError},
    listener::Listener,
    open::{AcceptBi, AcceptUni, OpenBi, OpenUni},
    recv_stream::RecvStream,
    runtime::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller, default_runtime},
    send_stream::SendStream,
    slots::{InUse, Slot, Slots, Uses},
    stream::{HELLO, OwnedReadHalf, OwnedWriteHalf, Stream},
    takeover::Successor,
    zero_rtt::ZeroRttAccepted,
};

/// TLS requirements and handshake results, at quinn's paths.
pub mod crypto {
    pub use rc3_core::{
        AeadKey, ClientCrypto as ClientConfig, CryptoError, HandshakeTokenKey, HmacKey, ResetKey,
        ServerCrypto as ServerConfig, TokenKey, crypto_provider,
    };

    pub use crate::error::ExportKeyingMaterialError;

    /// For TLS by rustls.
    pub mod rustls {
        pub use rc3_core::{
            ClientCrypto, HandshakeData, NoInitialCipherSuite, QuicClientConfig, QuicServerConfig,
            ServerCrypto,
        };
    }
}

/// Writes TLS secrets to the file in the environment variable `SSLKEYLOGFILE`, if set; pass it to `key_log` of rustls
/// settings. With them, a packet analyser can decrypt the primary.
/// Not for production: anyone with the file can read the traffic.
pub fn key_log() -> std::sync::Arc<dyn rustls::KeyLog> {
    std::sync::Arc::new(rustls::KeyLogFile::new())
}

/// The quick start of the workspace's README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct WorkspaceReadme;

/// So does the example in the README of this crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
