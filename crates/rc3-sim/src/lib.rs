//! Deterministic networks for RC3: queues, links and worlds in virtual time.
//!
//! Everything here is sans-IO: times come as arguments, randomness from a seed. The same [`Link`] therefore runs
//! in virtual time under a test and in real time between sockets.
#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests need some instant to start from"))]

pub mod agent;
mod background;
mod contents;
mod flow;
pub mod host;
pub mod identity;
pub mod model;
mod pair;
pub mod pcc;
mod queue;
mod random;
pub mod rcp;
pub mod record;
pub mod sample;
pub mod scenario;
pub mod simulation;
pub mod startup;
pub mod summary;
mod table;
pub mod today;
pub mod topology;
pub mod trace;
mod traffic;
pub mod workload;
pub mod world;

pub use background::{Background, BackgroundConfig};
pub use contents::Contents;
pub use flow::{FlowReport, pattern};
pub use identity::Crypto;
pub use pair::{Datagram, IP_UDP_HEADERS, LinkQueue, Node, Pair, PairConfig, Tamper};
pub use queue::{
    bleached::Bleached,
    cake::Cake,
    codel::CodelFifo,
    drop_front::DropFront,
    kick_ass::{KickAssConfig, KickAssQueue},
    primary_only::PrimaryOnly,
    two_classes::{Order, TwoClasses},
};
pub use rc3_link::{Impairments, LevelStats, Link, LinkConfig, LinkStats, Packet, Policer, Stamped};
pub use rc3_queue::{DropTail, FqCodel, Queue, Queued, Routed, StrictPriority, Tally};
pub use table::TableError;
pub use traffic::{Exchanged, Strangers, Traffic};

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
