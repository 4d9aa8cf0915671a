//! Which nodes are joined, at which rate and delay: data without behaviour, and the routes that follow from it.
//!
//! An uplink and a downlink join each host to its router; core links join routers, alike in both directions. A
//! [`Topology`] comes from a generator ([`dumbbell`], [`parking_lot`], [`fat_tree`]), from an embedded map
//! ([`Map`]) or from a file ([`from_csv`]), and can be changed afterwards ([`Topology::draw_core_rates`],
//! [`Topology::withdraw_priorities`]).
//!
//! Units: rates in bits per second on the wire, delays one way.

mod change;
mod csv;
mod generate;
mod map;
mod routes;
mod site;

use std::time::Duration;

use rc3_core::units::Rate;

pub use csv::from_csv;
pub use generate::{bottleneck, dumbbell, fat_tree, parking_lot};
pub use map::Map;
pub use routes::{DirectedCore, Routes};
pub use site::{NoSite, Site};

use crate::agent::HostId;

/// A network.
///
/// ```
/// use std::time::Duration;
/// use rc3_core::units::Rate;
/// use rc3_sim::{agent::HostId, topology::{Access, dumbbell}};
///
/// let (rate, rtt) = (Rate::from_bits_per_second(100_000_000).unwrap(), Duration::from_millis(40));
/// // Two routers with two hosts each.
/// let mut topology = dumbbell(rate, rtt, 2, Access::uplink(rate));
/// assert_eq!((topology.routers.len(), topology.hosts.len(), topology.cores.len()), (2, 4, 1));
/// assert_eq!(topology.nominal.bdp(), 500_000);
/// let routes = topology.routes();
/// assert_eq!(routes.hops(HostId(0), HostId(1)), Some(0), "neighbours");
/// assert_eq!(routes.path(HostId(0), HostId(2))[0].end(&topology), topology.router_of(HostId(2)));
/// // A second router that ignores priorities.
/// topology.routers[1].priorities = false;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The routers.
    pub routers: Vec<Router>,
    /// The hosts; [`HostId`] is the place in here.
    pub hosts: Vec<HostSite>,
    /// The core links, both directions of each.
    pub cores: Vec<Core>,
    /// Which of several shortest paths is taken.
    pub routing: Routing,
    /// The reference of relative figures.
    pub nominal: Nominal,
}

/// The reference of relative figures: a load of 0.3 is relative to `capacity`, a buffer of `1bdp` to `rate` and `rtt`.
/// Changes of single links leave it alone, so that an offered load stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nominal {
    /// Rate of the bottleneck of a single flow.
    pub rate: Rate,
    /// Round trip of a typical path.
    pub rtt: Duration,
    /// Traffic of all hosts together at a load of 1.
    pub capacity: Rate,
}

impl Nominal {
    /// Bandwidth-delay product in bytes, not rounded.
    pub fn product(&self) -> f64 {
        self.rate.bits_per_second() as f64 / 8.0 * self.rtt.as_secs_f64()
    }

    /// Bandwidth-delay product in bytes.
    pub fn bdp(&self) -> u64 {
        self.rate.bytes_in(self.rtt)
    }
}

/// A router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Router {
    /// Its name on the map.
    pub name: String,
    /// Whether its queues honour priorities (RC3 §6, partial support).
    pub priorities: bool,
}

/// A host's router and its access links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSite {
    /// Its router.
    pub router: usize,
    /// Its access links.
    pub access: Access,
    /// Whether the queue of its uplink knows priorities.
    pub priorities: bool,
}

impl HostSite {
    /// A host at a router, with priorities in the queue of its uplink.
    pub fn new(router: usize, access: Access) -> Self {
        Self { router, access, priorities: true }
    }
}

/// The two links between a host and its router. Without a rate no packet ever waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// From the host to the router.
    pub uplink: Option<Rate>,
    /// From the router to the host.
    pub downlink: Option<Rate>,
    /// One-way delay of each of them.
    pub delay: Duration,
    /// See [`crate::LinkConfig::overhead`]: of the uplink.
    pub overhead: Duration,
}

impl Access {
    /// An uplink of this rate, a downlink without a queue, no delay: the papers' hosts.
    pub fn uplink(rate: Rate) -> Self {
        Self { uplink: Some(rate), downlink: None, delay: Duration::ZERO, overhead: Duration::ZERO }
    }
}

/// A link between two routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Core {
    /// One end.
    pub a: usize,
    /// The other end.
    pub b: usize,
    /// Rate of each direction.
    pub rate: Rate,
    /// Propagation delay of each direction.
    pub delay: Duration,
}

/// Which of several shortest paths is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Routing {
    /// To the lowest-numbered neighbour that is on one: the same for all.
    #[default]
    LowestNeighbour,
    /// Equal-cost multipath (RFC 2992): by a hash of source and destination, the same for all packets from one
    /// host to another.
    HashOfEnds,
}

impl Topology {
    /// The routes of this network, as it is now.
    pub fn routes(&self) -> Routes {
        Routes::new(self)
    }

    /// Mean round trip over ordered pairs of routers, without the access links; zero without a pair that can
    /// reach each other.
    pub fn mean_rtt(&self) -> Duration {
        self.routes().mean_rtt(self)
    }

    /// Attaches `count` hosts to each of `routers`.
    pub(crate) fn attach(&mut self, routers: std::ops::Range<usize>, count: u32, access: Access) {
        let sites = routers.flat_map(|router| (0..count).map(move |_| HostSite::new(router, access)));
        self.hosts.extend(sites);
    }

    /// The router of a host.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn router_of(&self, host: HostId) -> usize {
        self.hosts[host.0 as usize].router
    }
}

/// Routers with these names, all of which honour priorities.
pub(crate) fn routers(names: impl IntoIterator<Item = String>) -> Vec<Router> {
    names.into_iter().map(|name| Router { name, priorities: true }).collect()
}
