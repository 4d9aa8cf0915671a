//! The queue in front of the emulated link.

use clap::ValueEnum;
use serde::Serialize;

use crate::emulator::Discipline;

/// A queue discipline, by the name it has on the command line and in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    /// Strict priority with push-out, as RC3 asks of routers
    #[default]
    Prio,
    /// One drop-tail queue, which ignores marks
    Fifo,
    /// A queue per 5-tuple under CoDel (fq_codel), which ignores marks
    Fq,
    /// No queue: a token bucket of the buffer's size drops what exceeds the rate
    Policer,
}

impl Queue {
    /// The emulator's discipline.
    pub fn discipline(self) -> Discipline {
        match self {
            Self::Prio => Discipline::Priority,
            Self::Fifo => Discipline::Fifo,
            Self::Fq => Discipline::FlowFair,
            Self::Policer => Discipline::Policer,
        }
    }

    /// Text for a headline.
    pub fn words(self) -> &'static str {
        match self {
            Self::Prio => "strict priority with push-out",
            Self::Fifo => "a FIFO that ignores marks",
            Self::Fq => "flow-fair queues that ignore marks",
            Self::Policer => "a policer",
        }
    }
}
