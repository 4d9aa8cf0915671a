//! A topology: routers in a ring.

use rc3_core::units::Rate;
use rc3_sim::{
    registry::{Fault, TopologyKind, TopologyRequest, host_keys_and},
    topology::{Core, HostSite, Nominal, Router, Routing, Topology},
};
use serde::Deserialize;

/// The entry of the registry.
pub(crate) const RING: TopologyKind = TopologyKind {
    about: "Routers in a ring of links of `rate`; `rtt` is that of one link. Parameter: `routers`.",
    keys: &host_keys_and("parameters"),
    topology,
};

/// Its parameters in scenario files.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    routers: usize,
}

fn topology(request: &TopologyRequest<'_>) -> Result<Topology, Fault> {
    let Settings { routers } = request.spec.parameters.read()?;
    if !(3..=1000).contains(&routers) {
        return Err(Fault::new("parameters.routers", "not within 3 to 1000"));
    }
    let (rate, rtt, hosts) = (request.rate(), request.rtt(), request.hosts()?);
    let access = request.access(rate);
    let sites = (0..routers).flat_map(|router| (0..hosts).map(move |_| HostSite::new(router, access)));
    let core = |n: usize| Core { a: n, b: (n + 1) % routers, rate, delay: rtt / 2 };
    let name = |n: usize| Router { name: n.to_string(), priorities: true };
    // A load of 1 is the traffic of all hosts at full uplinks, as on the maps.
    let full = rate.bits_per_second().saturating_mul(routers as u64 * u64::from(hosts));
    let capacity = Rate::from_bits_per_second(full).unwrap_or(rate);
    Ok(Topology {
        routers: (0..routers).map(name).collect(),
        hosts: sites.collect(),
        cores: (0..routers).map(core).collect(),
        routing: Routing::LowestNeighbour,
        nominal: Nominal { rate, rtt, capacity },
    })
}
