//! Deterministic networks for RC3: queues, links and worlds in virtual time.
//!
//! Everything here is sans-IO: times come as arguments, randomness from a seed. The same [`Link`] therefore runs
//! in virtual time under a test and in real time between sockets.
//!
//! [`Pair`] is two endpoints with a link between them, [`world`] a network of any size, [`scenario`] the files that
//! describe such networks:
//!
//! ```
//! use std::time::Duration;
//! use rc3_core::{Dir, Event, RlpMode, units::Rate};
//! use rc3_sim::{LinkConfig, Pair, PairConfig};
//!
//! /// Virtual time until 1 MB is acknowledged, over 1 Gbit/s with a round trip of 80 ms.
//! fn completion_time(rlp: RlpMode) -> Duration {
//!     let rate = Rate::from_bits_per_second(1_000_000_000);
//!     let link = LinkConfig { rate, delay: Duration::from_millis(40), ..LinkConfig::default() };
//!     let mut config = PairConfig::symmetric(link, 10_000_000);
//!     config.client.rlp(rlp);
//!     let mut pair = Pair::new(config);
//!     let client = pair.connect();
//!     pair.drive();
//!     let start = pair.now;
//!     let stream = pair.client.with(client, |connection| connection.open(Dir::Uni)).unwrap();
//!     pair.client.with(client, |connection| connection.write(stream, vec![0; 1_000_000].into())).unwrap();
//!     pair.client.with(client, |connection| connection.finish(stream)).unwrap();
//!     let finished = (client, Event::Finished(stream));
//!     assert!(pair.drive_until(Duration::from_secs(10), |pair| pair.client.events.contains(&finished)));
//!     pair.now - start
//! }
//!
//! assert!(completion_time(RlpMode::Trust) < Duration::from_millis(100), "one round trip");
//! assert!(completion_time(RlpMode::Off) > Duration::from_millis(400), "slow start takes many");
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests need some instant to start from"))]

pub mod adversary;
pub mod agent;
mod contents;
mod flow;
pub mod host;
pub mod identity;
pub mod insecure;
pub mod model;
mod pair;
pub mod pcc;
mod queue;
mod random;
pub mod rcp;
pub mod record;
pub mod registry;
pub mod sample;
pub mod scenario;
pub mod simulation;
mod startup;
pub mod summary;
mod table;
pub mod topology;
pub mod trace;
mod traffic;
pub mod workload;
pub mod world;

pub use contents::Contents;
pub use flow::{FlowReport, pattern};
pub use identity::Crypto;
pub use pair::{Datagram, IP_UDP_HEADERS, LinkQueue, Node, Pair, PairConfig, Tamper};
pub use queue::{
    border::Border,
    cake::Cake,
    codel::CodelFifo,
    drop_front::DropFront,
    kick_ass::KickAssQueue,
    two_classes::{ServedFirst, TwoClasses},
};
pub use rc3_link::{Impairments, LevelStats, Link, LinkConfig, LinkStats, Packet, Policer, Stamped, Waiting};
pub use rc3_queue::{DropTail, FqCodel, Queue, Queued, Routed, StrictPriority, Tally};
pub use table::TableError;
pub use traffic::{Exchanged, Strangers, Traffic};

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
