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
mod impair;
mod link;
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
pub use impair::Impairments;
pub use link::{LevelStats, Link, LinkConfig, LinkStats, Stamped, Tally};
pub use pair::{Datagram, IP_UDP_HEADERS, LinkQueue, Node, Pair, PairConfig, Tamper};
pub use queue::{
    Dropped, Packet, Queue,
    bleached::Bleached,
    cake::Cake,
    codel::CodelFifo,
    drop_front::DropFront,
    drop_tail::DropTail,
    fq_codel::FqCodel,
    ip::Routed,
    kick_ass::{KickAssConfig, KickAssQueue},
    policer::Policer,
    primary_only::PrimaryOnly,
    strict_priority::StrictPriority,
    two_classes::{Order, TwoClasses},
};
pub use table::TableError;
pub use traffic::{Exchanged, Strangers, Traffic};
