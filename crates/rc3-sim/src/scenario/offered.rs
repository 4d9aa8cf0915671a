//! The load that random arrivals offer to each link, before a world runs.

use rc3_core::units::Rate;

use super::Run;
use crate::{
    agent::HostId,
    topology::{Routing, Site, Topology},
    workload::{ArrivalProcess, Ends, OnOff, PACKET, PACKET_ON_THE_WIRE, Workload},
};

/// The link with the largest offered load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfferedLoad {
    /// The link.
    pub site: Site,
    /// Its rate.
    pub rate: Rate,
    /// Offered traffic, headers of full packets included, relative to the rate.
    pub share: f64,
}

/// Offered bits per second of each link.
struct Offered {
    uplinks: Vec<f64>,
    downlinks: Vec<f64>,
    /// Two directions of each core link.
    cores: Vec<f64>,
}

impl Run {
    /// The link with the largest offered load of the random arrivals; `None` without any. Flows of lists, files and closed
    /// loops do not count. Core links count where routes depend on routers alone, so not in a fat tree.
    pub fn offered_load(&self) -> Option<OfferedLoad> {
        let topology = &self.topology;
        let mut offered = Offered {
            uplinks: vec![0.0; topology.hosts.len()],
            downlinks: vec![0.0; topology.hosts.len()],
            cores: vec![0.0; 2 * topology.cores.len()],
        };
        for workload in std::iter::once(&self.workload).chain(&self.background) {
            if let Some((bits, ends)) = traffic(workload, topology) {
                offered.add(topology, bits, ends);
            }
        }
        offered.busiest(topology)
    }
}

/// Bits per second on the wire of random arrivals, with their ends.
fn traffic<'a>(workload: &'a Workload, topology: &Topology) -> Option<(f64, &'a Ends)> {
    match &workload.arrivals {
        ArrivalProcess::Poisson(poisson) => {
            Some((poisson.load * topology.nominal.capacity.bits_per_second() as f64, &poisson.ends))
        }
        ArrivalProcess::OnOff(OnOff { sources, peak, on, off, ends, .. }) => {
            let busy = on.as_secs_f64() / (*on + *off).as_secs_f64();
            let headers = PACKET_ON_THE_WIRE as f64 / PACKET as f64;
            Some((f64::from(*sources) * peak.bits_per_second() as f64 * busy * headers, ends))
        }
        _ => None,
    }
}

impl Offered {
    fn add(&mut self, topology: &Topology, bits: f64, ends: &Ends) {
        let Some(pairs) = ends.pairs(topology) else { return };
        for (host, share) in pairs.sent() {
            self.uplinks[host.0 as usize] += bits * share;
        }
        for (host, share) in pairs.received() {
            self.downlinks[host.0 as usize] += bits * share;
        }
        if topology.routing == Routing::LowestNeighbour {
            let routes = topology.routes();
            for (from, to, share) in pairs.between_routers() {
                for step in routes.path(from, to) {
                    self.cores[step.index()] += bits * share;
                }
            }
        }
    }

    fn busiest(&self, topology: &Topology) -> Option<OfferedLoad> {
        let hosts = topology.hosts.iter().enumerate().flat_map(|(index, host)| {
            let id = HostId(index as u32);
            [
                (Site::Uplink(id), host.access.uplink, self.uplinks[index]),
                (Site::Downlink(id), host.access.downlink, self.downlinks[index]),
            ]
        });
        let cores = topology.cores.iter().enumerate().flat_map(|(index, core)| {
            [
                (Site::Core(core.a, core.b), Some(core.rate), self.cores[2 * index]),
                (Site::Core(core.b, core.a), Some(core.rate), self.cores[2 * index + 1]),
            ]
        });
        let load = |(site, rate, bits): (Site, Option<Rate>, f64)| {
            let rate = rate?;
            let share = bits / rate.bits_per_second() as f64;
            (share > 0.0).then_some(OfferedLoad { site, rate, share })
        };
        // Core links first: of equal loads they are the ones that flows share.
        cores
            .chain(hosts)
            .filter_map(load)
            .reduce(|most, next| if next.share > most.share { next } else { most })
    }
}
