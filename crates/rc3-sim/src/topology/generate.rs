//! Networks made from a few numbers.

use std::time::Duration;

use rc3_core::units::Rate;

use super::{Access, Core, Nominal, Routing, Topology, csv::capacity, routers};

/// Two routers and one link of `rate` between them, with `hosts` hosts at each. `rtt` is that of the link; a
/// load of 1 fills one of its directions if only one side sends.
pub fn dumbbell(rate: Rate, rtt: Duration, hosts: u32, access: Access) -> Topology {
    parking_lot(1, rate, rtt, hosts, access)
}

/// `links` (at least 1) core links of `rate` in a row, with `hosts` hosts at each router. `rtt` is that of one
/// link; a load of 1 would fill one direction if all flows took it.
pub fn parking_lot(links: u32, rate: Rate, rtt: Duration, hosts: u32, access: Access) -> Topology {
    let links = links.max(1) as usize;
    let mut topology = Topology {
        routers: routers((0..=links).map(|n| n.to_string())),
        hosts: Vec::new(),
        cores: (0..links).map(|n| Core { a: n, b: n + 1, rate, delay: rtt / 2 }).collect(),
        routing: Routing::LowestNeighbour,
        nominal: Nominal { rate, rtt, capacity: rate },
    };
    topology.attach(0..links + 1, hosts, access);
    topology
}

/// Two routers and one link of `rate` between them, with a host of each of so many pairs at either end: host `2n` at the first
/// router, `2n + 1` at the second. Uplinks have the rate `card`, and at downlinks nothing waits.
pub fn bottleneck(rate: Rate, rtt: Duration, pairs: u32, card: Rate) -> Topology {
    let mut topology = parking_lot(1, rate, rtt, 0, Access::uplink(card));
    for _ in 0..pairs {
        topology.attach(0..2, 1, Access::uplink(card));
    }
    topology
}

/// A fat tree of switches with `ports` ports (even, at least 2; Al-Fares, Loukissas, Vahdat, SIGCOMM 2008): as
/// many pods, each with half as many edge and aggregation switches, and half as many hosts at each edge switch.
/// All links have the same rate and delay, those of the hosts included, paths are chosen by hash.
///
/// `rtt` is that of the longest path, which has six links each way. RC3 §6 gives 100 Gbit/s and "microsecond
/// latencies", no more.
///
/// # Panics
/// If `ports` is odd or zero.
pub fn fat_tree(ports: u32, rate: Rate, rtt: Duration) -> Topology {
    assert!(ports > 0 && ports.is_multiple_of(2), "a fat tree needs an even number of ports, not {ports}");
    let half = ports as usize / 2;
    let pods = ports as usize;
    let delay = rtt / 12;
    let edge = |pod: usize, n: usize| pod * half + n;
    let aggregation = |pod: usize, n: usize| pods * half + pod * half + n;
    let core = |n: usize, m: usize| 2 * pods * half + n * half + m;
    let names = (0..pods * half)
        .map(|n| format!("edge {n}"))
        .chain((0..pods * half).map(|n| format!("aggregation {n}")))
        .chain((0..half * half).map(|n| format!("core {n}")));

    let mut cores = Vec::new();
    for pod in 0..pods {
        for n in 0..half {
            for m in 0..half {
                cores.push(Core { a: edge(pod, n), b: aggregation(pod, m), rate, delay });
                cores.push(Core { a: aggregation(pod, n), b: core(n, m), rate, delay });
            }
        }
    }
    let mut topology = Topology {
        routers: routers(names),
        hosts: Vec::new(),
        cores,
        routing: Routing::HashOfEnds,
        nominal: Nominal { rate, rtt, capacity: capacity(rate, pods * half, half as u32) },
    };
    let access = Access { downlink: Some(rate), delay, ..Access::uplink(rate) };
    topology.attach(0..pods * half, half as u32, access);
    topology
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::HostId;

    fn rate(bits: u64) -> Rate {
        Rate::from_bits_per_second(bits).unwrap()
    }

    #[test]
    fn a_parking_lot_is_a_row() {
        let topology = parking_lot(
            5,
            rate(150_000_000),
            Duration::from_millis(25),
            1,
            Access::uplink(rate(1_000_000_000)),
        );
        let routes = topology.routes();
        for from in 0..6_u32 {
            for to in 0..6_u32 {
                assert_eq!(routes.hops(HostId(from), HostId(to)), Some(from.abs_diff(to) as usize));
            }
        }
        assert_eq!(topology.mean_rtt(), Duration::from_millis(25) * 70 / 30);
    }

    #[test]
    fn a_dumbbell_has_one_bottleneck() {
        let topology =
            dumbbell(rate(1_000_000), Duration::from_millis(40), 3, Access::uplink(rate(10_000_000)));
        assert_eq!((topology.hosts.len(), topology.cores.len()), (6, 1));
        assert_eq!(topology.mean_rtt(), Duration::from_millis(40));
        assert_eq!(topology.routes().path(HostId(0), HostId(5)).len(), 1);
        assert_eq!(topology.routes().path(HostId(0), HostId(2)).len(), 0);
    }

    #[test]
    fn a_fat_tree_has_the_numbers_of_its_paper() {
        for (ports, hosts) in [(2, 2), (4, 16), (8, 128)] {
            let topology = fat_tree(ports, rate(100_000_000_000), Duration::from_micros(96));
            assert_eq!(topology.hosts.len(), hosts);
            assert_eq!(topology.routers.len() as u32, 5 * ports * ports / 4);
            let mut used = vec![0; topology.routers.len()];
            topology.cores.iter().for_each(|core| {
                used[core.a] += 1;
                used[core.b] += 1;
            });
            topology.hosts.iter().for_each(|host| used[host.router] += 1);
            assert!(used.iter().all(|&used| used == ports), "every port is used once: {used:?}");
        }
    }

    #[test]
    fn a_fat_tree_spreads_flows_over_all_its_core_switches() {
        let topology = fat_tree(8, rate(100_000_000_000), Duration::from_micros(96));
        let routes = topology.routes();
        // A host of the first pod and all hosts of the others.
        let mut through = std::collections::BTreeMap::<usize, u32>::new();
        for to in 16..128 {
            let path = routes.path(HostId(0), HostId(to));
            assert_eq!(path.len(), 4);
            *through.entry(path[1].end(&topology)).or_default() += 1;
        }
        assert_eq!(through.len(), 16, "{through:?}");
        assert!(through.values().all(|&flows| flows < 20), "7 on average: {through:?}");
    }
}
