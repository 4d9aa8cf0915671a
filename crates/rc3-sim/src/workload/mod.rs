//! Senders, receivers, sizes and times of flows, as iterators that make one flow at a time.
//!
//! A [`Workload`] describes, [`Workload::flows`] draws. All draws follow from the topology and one seed, and each
//! flow takes the same number of them, so that two worlds that differ in their schemes, or in their load alone,
//! have the same flows between the same hosts.
//!
//! Units: sizes are packets of [`PACKET`] bytes or bytes of the application, times run from the beginning of the
//! world.

mod arrivals;
mod closed_loop;
mod ends;
mod merge;
mod one;
mod replay;
mod sizes;

pub use arrivals::Poisson;
pub use closed_loop::ClosedLoop;
pub(crate) use closed_loop::LoopSource;
pub use ends::Ends;
pub use merge::Merge;
pub(crate) use one::LIMIT;
pub use one::One;
pub(crate) use replay::check_ends;
pub use replay::{Listed, replay};
pub use sizes::{Sizes, SizesError};

use crate::{
    agent::{Flow, Writes},
    topology::Topology,
};

/// Bytes of the application in a full packet (the papers' maximum segment size).
pub const PACKET: u64 = 1460;

/// Bytes of a full packet on the wire with the headers of TCP and IPv4, which load is counted in.
pub const PACKET_ON_THE_WIRE: u64 = 1500;

/// A source of flows.
///
/// ```
/// use std::time::Duration;
/// use rc3_core::units::Rate;
/// use rc3_sim::{agent::Writes, topology::{Access, dumbbell}};
/// use rc3_sim::workload::{ArrivalProcess, Ends, PACKET, Poisson, Sizes, Workload};
///
/// let rate = Rate::from_bits_per_second(100_000_000).unwrap();
/// let topology = dumbbell(rate, Duration::from_millis(40), 2, Access::uplink(rate));
/// // Flows of 100 packets that fill half of the link, from the hosts of router 0.
/// let ends = Ends { from: Some(vec![0]), to: None };
/// let poisson = Poisson { sizes: Sizes::fixed(100)?, load: 0.5, ends };
/// assert_eq!(poisson.mean_gap(&topology), Some(Duration::from_millis(24)));
///
/// let workload = Workload { arrivals: ArrivalProcess::Poisson(poisson), writes: Writes::AtOnce };
/// assert_eq!(workload.count(), None, "without end");
/// let flows: Vec<_> = workload.flows(&topology, 7).take(10).collect();
/// assert!(flows.iter().all(|flow| flow.bytes == 100 * PACKET && topology.router_of(flow.from) == 0));
/// assert!(workload.flows(&topology, 7).take(10).eq(flows), "the same seed, the same flows");
/// # Ok::<(), rc3_sim::workload::SizesError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Times, hosts and sizes of flows.
    pub arrivals: ArrivalProcess,
    /// How the application writes its bytes.
    pub writes: Writes,
}

/// Times, hosts and sizes of flows.
#[derive(Debug, Clone, PartialEq)]
pub enum ArrivalProcess {
    /// A Poisson process.
    Poisson(Poisson),
    /// Sources that wait for the end of each flow.
    ClosedLoop(ClosedLoop),
    /// Known flows, ordered by time.
    List(Vec<Listed>),
    /// One flow, once those beside it have settled.
    One(One),
    /// So many flows without end beside it.
    Long(u32),
    /// Short flows beside it, as a share of the bottleneck's rate.
    Short(f64),
}

impl Workload {
    /// How many flows there are; `None` if they never end.
    pub fn count(&self) -> Option<u64> {
        match &self.arrivals {
            ArrivalProcess::List(flows) => Some(flows.len() as u64),
            ArrivalProcess::One(_) => Some(1),
            _ => None,
        }
    }

    /// The flows, in order of arrival, numbered from 0, all of scheme 0. [`Merge`] joins several workloads. Those of a closed
    /// loop depend on how long the ones before take; they are not among these. Nor is one flow, which waits for others.
    pub fn flows(&self, topology: &Topology, seed: u64) -> Box<dyn Iterator<Item = Flow> + Send> {
        let writes = self.writes;
        match &self.arrivals {
            ArrivalProcess::Poisson(poisson) => {
                Box::new(poisson.flows(topology, seed).map(move |flow| Flow { writes, ..flow }))
            }
            ArrivalProcess::ClosedLoop(_) | ArrivalProcess::One(_) => Box::new(std::iter::empty()),
            ArrivalProcess::Long(count) => Box::new(one::long(*count, topology.nominal, seed)),
            ArrivalProcess::Short(load) => Box::new(one::short(*load, topology.nominal, seed)),
            ArrivalProcess::List(flows) => Box::new(replay::flows(flows.clone(), writes)),
        }
    }
}
