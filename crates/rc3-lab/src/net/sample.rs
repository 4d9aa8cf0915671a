//! What was measured, a row each.

use serde::{Deserialize, Serialize};

use super::transport::Timed;

/// The name in place of a scheme where none sends, so that others are measured alone.
pub const NOBODY: &str = "nobody";

/// A flow of a scheme. Times are in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredFlow {
    /// Where it was measured.
    pub experiment: String,
    /// In which cell of it.
    pub cell: String,
    /// What carried it.
    pub scheme: String,
    /// Bytes of the application.
    pub bytes: u64,
    /// In which turn, from 1; of Kick-Ass, which sender.
    pub run: u32,
    /// Which connection of its sender, from 1.
    pub connection: u32,
    /// From the call that connects until the connection was open.
    pub connect_s: f64,
    /// From the first byte offered on the open connection until the receiver had the last.
    pub fct_s: f64,
    /// The shortest possible [`Self::fct_s`]; zero where it is not known.
    pub ideal_s: f64,
    /// CPU time of the sender, its handshake included.
    pub sender_cpu_s: f64,
    /// CPU time of the receiver from the open connection on.
    pub receiver_cpu_s: f64,
    /// Time in Kick-Ass mode.
    pub kickass_s: Option<f64>,
    /// Goodput of the long flow of others in the window of this flow, over the rate of the link.
    pub others_share: Option<f64>,
    /// How late 99 % of the packets left the WAN meanwhile at most.
    pub late_p99_s: f64,
    /// The latest.
    pub late_max_s: f64,
    /// Packets the queue dropped meanwhile.
    pub dropped: u64,
    /// Packets lost behind the queue meanwhile.
    pub lost: u64,
    /// With a recipe: packets of the primary that left the queue meanwhile, also of others.
    pub primary_packets: u64,
    /// Of those, how many waited while more than one packet of RLP left.
    pub primary_behind: u64,
    /// Packets of RLP.
    pub rlp_packets: u64,
    /// Of those, how many waited while more than one packet of a worse level left.
    pub rlp_behind: u64,
    /// How often it was measured until the WAN was in time.
    pub attempts: u32,
    /// Whether the WAN was in time, so that it counts.
    pub counts: bool,
}

impl MeasuredFlow {
    /// A flow, without what the WAN did meanwhile.
    pub fn new(experiment: &str, cell: &str, scheme: &str, bytes: u64, timed: &Timed) -> Self {
        Self {
            experiment: experiment.to_owned(),
            cell: cell.to_owned(),
            scheme: scheme.to_owned(),
            bytes,
            connect_s: timed.connect,
            fct_s: timed.flow,
            sender_cpu_s: timed.sender_cpu,
            receiver_cpu_s: timed.receiver_cpu,
            kickass_s: timed.modes.map(|modes| modes.steered),
            attempts: 1,
            counts: true,
            ..Self::default()
        }
    }
}

/// What others felt during a session of a scheme.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OthersSample {
    /// Where it was measured.
    pub experiment: String,
    /// In which cell of it.
    pub cell: String,
    /// Beside which scheme; [`NOBODY`] is beside none.
    pub scheme: String,
    /// In which turn, from 1.
    pub run: u32,
    /// Round trips of small datagrams in seconds: median.
    pub ping_median_s: Option<f64>,
    /// 99 % of them.
    pub ping_p99_s: Option<f64>,
    /// Small datagrams that returned.
    pub pings: u64,
    /// Mean goodput of the long flow over the rate of the link.
    pub long_share: Option<f64>,
    /// Flows of others that began and ended meanwhile.
    pub flows: u64,
    /// Geometric mean of their completion times from connect over the ideal.
    pub slowdown: Option<f64>,
    /// 99 % of those are below.
    pub slowdown_p99: Option<f64>,
}

/// A check of the WAN before measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckSample {
    /// The path.
    pub path: String,
    /// What was checked.
    pub check: String,
    /// What should be.
    pub expected: f64,
    /// What was.
    pub measured: f64,
    /// The unit of both.
    pub unit: String,
    /// How far apart they may be, in the same unit.
    pub tolerance: f64,
}

impl CheckSample {
    /// Whether it is within the tolerance.
    pub fn passed(&self) -> bool {
        (self.measured - self.expected).abs() <= self.tolerance
    }
}
