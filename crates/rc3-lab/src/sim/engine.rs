//! What runs a world: the simulator, or records made up by a test.

use std::time::Duration;

use rc3_sim::{record::FlowRecord, sample::LinkSample, scenario::Run, simulation::Beside};
use serde::{Deserialize, Serialize};

use super::links::LinkRow;

/// Runs worlds.
pub trait Engine: Sync {
    /// Runs one world to its end. From time to time it calls `progress` with the number of flows that have ended; `trace`
    /// requests [`WorldOutcome::sent`].
    ///
    /// # Errors
    /// When the world cannot be built or does not end; the text gives the reason.
    fn simulate(&self, run: &Run, trace: bool, progress: &mut dyn FnMut(u64))
    -> Result<WorldOutcome, String>;
}

/// The results of a world. Stored as JSON they read back exactly, without the counters of guard mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorldOutcome {
    /// The measured flows, in order of arrival.
    pub records: Vec<FlowRecord>,
    /// Packets that the sender of the first measured flow put on its uplink, if they were requested.
    pub sent: Vec<SentPacket>,
    /// Samples of the link that the run samples, if there is one.
    pub samples: Vec<LinkSample>,
    /// What happened on the path of one flow, if the world has one.
    pub beside: Option<Beside>,
    /// What each link carried, dropped and queued.
    pub links: Vec<LinkRow>,
    /// How much work it was.
    pub cost: Cost,
}

/// How much work a world was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Flows that ended, measured or not.
    pub flows: u64,
    /// Times a link or a host was woken.
    pub events: u64,
    /// Packets at the end of a link: one packet on three links counts three times.
    pub link_packets: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.flows += other.flows;
        self.events += other.events;
        self.link_packets += other.link_packets;
    }
}

/// A packet on a flow's uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentPacket {
    /// When, from the beginning of the world.
    pub at: Duration,
    /// The number of its level; 0 is the primary loop's.
    pub level: u8,
    /// Bytes on the wire.
    pub size: usize,
}
