//! The load that random arrivals offer to each link, before a world runs.

use rc3_core::units::Rate;

use super::Run;
use crate::{
    topology::{Routing, Site, Topology},
    workload::{ArrivalProcess, Ends},
};

/// The link with the largest offered load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfferedLoad {
    /// The link.
    pub site: Site,
    /// Its rate.
    pub rate: Rate,
    /// Offered traffic, TCP's headers included, relative to the rate.
    pub share: f64,
}

impl Run {
    /// The link with the largest offered load of the random arrivals; `None` without any. Flows of lists, files and closed
    /// loops do not count. Core links count where routes depend on routers alone, so not in a fat tree.
    pub fn offered_load(&self) -> Option<OfferedLoad> {
        let topology = &self.topology;
        // Bits per second, by number of the link.
        let mut offered = vec![0.0; topology.links().count()];
        for workload in std::iter::once(&self.workload).chain(&self.background) {
            if let ArrivalProcess::Poisson(poisson) = &workload.arrivals {
                let bits = poisson.load * topology.nominal.capacity.bits_per_second() as f64;
                add(&mut offered, topology, bits, &poisson.ends);
            }
        }
        let load = |((site, rate), bits): ((Site, Option<Rate>), f64)| {
            let rate = rate?;
            let share = bits / rate.bits_per_second() as f64;
            (share > 0.0).then_some(OfferedLoad { site, rate, share })
        };
        let loads: Vec<_> = topology.links().zip(offered).filter_map(load).collect();
        // Core links first: of equal loads they are the ones that flows share.
        let (cores, access): (Vec<_>, Vec<_>) =
            loads.into_iter().partition(|load| matches!(load.site, Site::Core(..)));
        cores.into_iter().chain(access).reduce(|most, next| if next.share > most.share { next } else { most })
    }
}

/// Adds what these ends offer to each link.
fn add(offered: &mut [f64], topology: &Topology, bits: f64, ends: &Ends) {
    let Some(pairs) = ends.pairs(topology) else { return };
    for (host, share) in pairs.sent() {
        offered[2 * host.0 as usize] += bits * share;
    }
    for (host, share) in pairs.received() {
        offered[2 * host.0 as usize + 1] += bits * share;
    }
    if topology.routing == Routing::LowestNeighbour {
        let routes = topology.routes();
        for (from, to, share) in pairs.between_routers() {
            for step in routes.path(from, to) {
                offered[2 * topology.hosts.len() + step.index()] += bits * share;
            }
        }
    }
}
