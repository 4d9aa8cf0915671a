//! The queue in front of an emulated link.

use clap::ValueEnum;
use rc3_core::units::Rate;
use rc3_link::{Policer, Waiting};
use rc3_queue::{DropTail, FqCodel, FqCodelConfig, Queue, StrictPriority};
use serde::Serialize;

use super::path::Carried;

/// A queue discipline, by the name it has on the command line and in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Discipline {
    /// Strict priority with push-out, as RC3 asks of routers
    #[default]
    #[value(name = "prio")]
    #[serde(rename = "prio")]
    Priority,
    /// One drop-tail queue, which ignores marks
    Fifo,
    /// A queue per 5-tuple under CoDel (fq_codel), which ignores marks
    #[value(name = "fq")]
    #[serde(rename = "fq")]
    FlowFair,
    /// No queue: a token bucket of the buffer's size drops what exceeds the rate
    Policer,
}

impl Discipline {
    /// Text for a headline.
    pub fn words(self) -> &'static str {
        match self {
            Self::Priority => "strict priority with push-out",
            Self::Fifo => "a FIFO that ignores marks",
            Self::FlowFair => "flow-fair queues that ignore marks",
            Self::Policer => "a policer",
        }
    }

    /// The queue, holding at most `limit` bytes in front of a link of this rate. `seed` decides which flows share a
    /// queue.
    pub(super) fn queue(self, limit: u64, rate: Rate, seed: u64) -> Box<dyn Queue<Waiting<Carried>> + Send> {
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
