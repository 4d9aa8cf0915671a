//! The queue in front of an emulated link.

use rc3_core::units::Rate;
use rc3_link::{Packet, Policer, Stamped};
use rc3_queue::{DropTail, FqCodel, FqCodelConfig, Queue, Routed, StrictPriority};

/// A queue discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// Strict priority by level, with push-out (RC3 §2.1).
    Priority,
    /// First in, first out; arrivals that do not fit are dropped. Marks are ignored.
    Fifo,
    /// Flow queues under CoDel, as in fq_codel (RFC 8290): both loops of a connection share one.
    FlowFair,
    /// A token bucket of the buffer's size, filled at the rate of the link; the link behind it is faster.
    Policer,
}

impl Discipline {
    /// The queue, holding at most `limit` bytes in front of a link of this rate. `seed` decides which flows share a
    /// queue.
    pub(super) fn queue<T: Routed + Send + 'static>(
        self,
        limit: u64,
        rate: Rate,
        seed: u64,
    ) -> Box<dyn Queue<Packet<Stamped<T>>> + Send> {
        match self {
            Self::Priority => Box::new(StrictPriority::by_level(limit)),
            Self::Fifo => Box::new(DropTail::new(limit)),
            Self::FlowFair => {
                Box::new(FqCodel::new(FqCodelConfig { limit, key: seed, ..FqCodelConfig::default() }))
            }
            Self::Policer => Box::new(Policer::new(rate, limit)),
        }
    }
}
