//! The queues in front of a bottleneck.

use std::fmt;

use rc3_core::{Verdict, units::Rate};
use rc3_queue::FqCodelConfig;
use serde::Deserialize;

use crate::{
    Bleached, Cake, CodelFifo, DropFront, DropTail, FqCodel, Order, Packet, Policer, Queue, Routed, Stamped,
    StrictPriority, TwoClasses,
};

/// What the queue in front of the bottleneck does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First in, first out; arrivals that do not fit are dropped. Marks are ignored.
    Fifo,
    /// The same, but the packets that waited longest are dropped.
    DropFront,
    /// CoDel on a FIFO (RFC 8289).
    Codel,
    /// Queues per flow under CoDel, as fq_codel and CAKE's `besteffort`: both loops of a connection share one.
    FlowFair,
    /// CAKE's `diffserv3`: marked packets share a busy link 64 : 1024 with the others.
    Cake,
    /// A token bucket of the buffer's size; the link behind is faster.
    Policer,
    /// Two classes, the marked one behind: AC_BK of a Wi-Fi sender, or of an access point with its own table.
    Background,
    /// Two classes, the marked one in front: networks whose best effort is the lowest class.
    Inverted,
    /// Strict priority by level, with push-out.
    Priority,
    /// The same behind a router that clears marks.
    Bleached,
}

impl Discipline {
    /// The verdict that is right about it.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Cake | Self::Background | Self::Priority => Verdict::Honoured,
            _ => Verdict::Ignored,
        }
    }

    /// The queue, for at most `limit` bytes in front of a link of this rate. `seed` decides which flows share a queue.
    pub fn queue<T: Routed + Send + 'static>(
        self,
        limit: u64,
        rate: Rate,
        seed: u64,
    ) -> Box<dyn Queue<Packet<Stamped<T>>> + Send> {
        match self {
            Self::Fifo => Box::new(DropTail::new(limit)),
            Self::DropFront => Box::new(DropFront::new(limit)),
            Self::Codel => Box::new(CodelFifo::new(limit)),
            Self::FlowFair => {
                let config = FqCodelConfig { limit, key: seed, ..FqCodelConfig::default() };
                Box::new(FqCodel::new(config))
            }
            Self::Cake => Box::new(Cake::new(limit, seed)),
            Self::Policer => Box::new(Policer::new(rate, limit)),
            Self::Background => Box::new(TwoClasses::new(Order::PrimaryFirst, limit)),
            Self::Inverted => Box::new(TwoClasses::new(Order::MarkedFirst, limit)),
            Self::Priority => Box::new(StrictPriority::by_level(limit)),
            Self::Bleached => Box::new(Bleached(StrictPriority::by_level(limit))),
        }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::DropFront => "drop-front",
            Self::Codel => "codel",
            Self::FlowFair => "flow-fair",
            Self::Cake => "cake",
            Self::Policer => "policer",
            Self::Background => "background",
            Self::Inverted => "inverted",
            Self::Priority => "priority",
            Self::Bleached => "bleached",
        })
    }
}
