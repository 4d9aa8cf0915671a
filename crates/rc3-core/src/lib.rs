//! Sans-IO machines of the RC3 transport: QUIC as the primary loop from the first byte up, and the RLP loop from the
//! last byte down at ever lower priority (RC3, NSDI 2014).
//!
//! [`Endpoint`] holds the connections of one UDP port; [`Connection`] connects the primary, the RLP loop and the
//! streams. Nothing here touches a socket, a clock or a task: time and datagrams are arguments, and actions come out of
//! `poll_*`. Most programs use `rc3-net`, which drives this crate over tokio.
//!
//! # The poll loop
//!
//! After every input (`handle_*`) and every command, drain the outputs: datagrams of the primary first, then those of
//! RLP, then events. Only then wait for the next datagram or for [`Endpoint::poll_timeout`]. Here two endpoints live in
//! one program, and a stream goes from one to the other:
//!
//! ```
//! use std::{net::SocketAddr, time::Instant};
//! use rc3_core::{DatagramMeta, Dir, Endpoint, EndpointEvent, Event};
//!
//! /// Moves one datagram from `from`, whose address is `remote`, to `to`; `false` if there is none.
//! fn deliver(now: Instant, from: &mut Endpoint, remote: SocketAddr, to: &mut Endpoint) -> bool {
//!     let mut buf = Vec::new();
//!     // A driver of sockets sends with the mark of `Transmit::level`.
//!     let transmit = from.poll_primary(now, 1, &mut buf).or_else(|| from.poll_rlp(now, 1, &mut buf));
//!     let Some(transmit) = transmit else { return false };
//!     let meta = DatagramMeta { remote, local_ip: None, ecn: transmit.ecn, leading_len: None, arrived: None };
//!     to.handle_datagram(now, meta, buf.as_slice().into());
//!     true
//! }
//!
//! # let (client_config, server_config) = rc3_sim::identity::identity(&["example"]);
//! # let (client_addr, server_addr) = ("10.0.0.1:4433".parse()?, "10.0.0.2:4433".parse()?);
//! let mut now = Instant::now();
//! let mut client = Endpoint::new(None, None)?;
//! let mut server = Endpoint::new(Some(&server_config), None)?;
//! let connection = client.connect(now, &client_config, server_addr, rc3_sim::identity::SERVER_NAME)?;
//! let mut received = 0;
//! while received < 100_000 {
//!     if deliver(now, &mut client, client_addr, &mut server)
//!         || deliver(now, &mut server, server_addr, &mut client)
//!     {
//!         continue;
//!     } else if let Some(event) = client.poll_event() {
//!         if let EndpointEvent::Connection(_, Event::Connected) = event {
//!             client.with_connection(now, connection, |connection| {
//!                 let stream = connection.open(Dir::Uni).expect("the peer allows 100");
//!                 connection.write(stream, vec![7; 100_000].into()).expect("the send window has room");
//!                 connection.finish(stream).expect("the stream is open");
//!             });
//!         }
//!     } else if let Some(event) = server.poll_event() {
//!         match event {
//!             EndpointEvent::Incoming(incoming) => drop(server.accept(now, incoming)?),
//!             EndpointEvent::Connection(handle, Event::Opened(dir)) => {
//!                 server.with_reader(|| now, handle, |connection| connection.accept(dir));
//!             }
//!             EndpointEvent::Connection(handle, Event::Readable(stream)) => {
//!                 server.with_reader(|| now, handle, |connection| {
//!                     while let Ok(Some(chunk)) = connection.read(stream, usize::MAX, true) {
//!                         received += chunk.bytes.len();
//!                     }
//!                 });
//!             }
//!             _ => {}
//!         }
//!     } else {
//!         // Nothing to send or to handle: a timer is next, such as the pacer's.
//!         let next = [client.poll_timeout(), server.poll_timeout()].into_iter().flatten().min();
//!         now = now.max(next.expect("bytes are under way"));
//!         client.handle_timeout(now);
//!         server.handle_timeout(now);
//!     }
//! }
//! assert_eq!(received, 100_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests need some instant to start from"))]

#[cfg(not(any(feature = "aws-lc-rs", feature = "ring")))]
compile_error!("rc3 needs a library of cryptography: turn on the feature `ring` or `aws-lc-rs`");

mod config;
mod datagram_meta;
mod error;
mod event;
#[doc(hidden)]
pub mod internals;
mod laws;
mod machines;
mod quic;
mod seams;
mod shows;
mod stats;
mod structures;
mod transmit;
pub mod units;
mod wire;

pub use config::{ClientConfig, Congestion, EndpointConfig, RlpMode, ServerConfig, TransportConfig};
pub use datagram_meta::DatagramMeta;
pub use error::{ClosedStream, PeerMisbehaved, ReadError, SourceError};
pub use event::Event;
pub use kickass::endpoint::{Cause as TcpCause, Mode as KickAssMode};
pub use laws::{
    clock::ClockStats,
    guard::{GuardStats, Verdict},
    ladder::{Ladder, LadderError},
    verdicts::{DestinationVerdict, KnownPath, NEAR_PATHS_MAX, Pace, are_neighbours, network_of, site_of},
    worker_hash::WorkerHash,
};
pub use machines::{
    connection::Connection,
    endpoint::{Drained, Endpoint, EndpointEvent, IncomingStats},
    receivers::RouteChange,
    stream::send::source::SourceRead,
    succession::{Detour, FromPredecessor},
};
pub use quic::*;
#[cfg(feature = "qlog")]
pub use seams::qlog::Qlog;
pub use seams::{
    cryptography::{ResetKey, TokenKey, crypto_provider},
    primary::quinn::{ConnectFailed, Incoming},
    tls::{
        ClientCrypto, ConfigError, NoInitialCipherSuite, QuicClientConfig, QuicServerConfig, ServerCrypto,
    },
};
pub use stats::{ConnectionStats, KickAssStats, LevelStats, ReceivedStats, SentStats, SwitchCounts};
pub use structures::reassembler::Chunk;
pub use transmit::{BATCH_BYTES_MAX, Transmit};
pub use wire::{ALPN_VERSION, header::is_rlp};

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
