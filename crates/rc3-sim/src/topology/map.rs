//! The networks of the papers' evaluation (RC3 §5.1), from data compiled in.
//!
//! All their core links are equally used when hosts send to random hosts at other routers: a link's rate is the
//! number of ordered router pairs that cross it in its busier direction, times the traffic of a pair when all
//! uplinks are full. So a load of 0.3 is a utilisation of 30 % everywhere, as in the papers. Only a link that few
//! pairs cross is used less: none is slower than an uplink, which is thereby the bottleneck of a host's flows.
//!
//! Where a map has no delays the papers' mean round trip of 40 ms is met with the same delay on all links, as
//! the papers' footnote on "uniform link latencies" has it (RC3 §5.1.2). Every node of a map is a router with
//! hosts. The papers do not name those with hosts.

use std::time::Duration;

use rc3_core::units::Rate;
use serde::Deserialize;

use super::{
    Access, Core, Nominal, Routing, Topology,
    csv::{Names, capacity},
};
use crate::table;

/// A network compiled in. See `data/README.md` for where each is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Map {
    /// The papers' Internet-2: 10 routers, 16 core links.
    Internet2,
    /// AS 1221: 104 routers, 151 core links.
    Telstra,
    /// The academic network of Latin America: 13 routers, 17 core links.
    Redclara,
    /// The network of the U.S. Department of Energy: 68 routers, 79 core links.
    Esnet,
    /// Internet2 in 2004: 11 routers, 14 core links.
    Abilene,
}

#[derive(Deserialize)]
struct MapLink {
    a: String,
    b: String,
}

impl Map {
    /// The network for uplinks of `rate` and a round trip of `rtt`, with `hosts` hosts at each router.
    ///
    /// In Internet-2 `rtt` is that of two core links, as in RC3 (footnote 5), and the mean over router pairs
    /// 1.1 % less; in the others it is the mean.
    pub fn topology(self, rate: Rate, rtt: Duration, hosts: u32, access: Access) -> Topology {
        let rows: Vec<(u64, MapLink)> =
            table::rows(self.text(), "a map compiled in", &["a", "b"]).expect("embedded data");
        let mut names = Names::default();
        let ends = rows.iter().map(|(_, row)| (names.number(&row.a), names.number(&row.b)));
        let cores = ends.map(|(a, b)| Core { a, b, rate, delay: Duration::ZERO }).collect();
        let routers = names.routers();
        let nominal = Nominal { rate, rtt, capacity: capacity(rate, routers.len(), hosts) };
        let mut topology =
            Topology { routers, hosts: Vec::new(), cores, routing: Routing::LowestNeighbour, nominal };
        topology.attach(0..topology.routers.len(), hosts, access);
        self.set_delays(&mut topology, rtt);
        set_rates(&mut topology);
        topology
    }

    fn set_delays(self, topology: &mut Topology, rtt: Duration) {
        let links = match self {
            Self::Internet2 => 2.0,
            _ => topology.routes().mean_distance(),
        };
        let delay = rtt.div_f64(2.0 * links);
        topology.cores.iter_mut().for_each(|core| core.delay = delay);
    }

    fn text(self) -> &'static str {
        match self {
            Self::Internet2 => include_str!("../../data/topologies/internet2.csv"),
            Self::Telstra => include_str!("../../data/topologies/telstra.csv"),
            Self::Redclara => include_str!("../../data/topologies/redclara.csv"),
            Self::Esnet => include_str!("../../data/topologies/esnet.csv"),
            Self::Abilene => include_str!("../../data/topologies/abilene.csv"),
        }
    }
}

/// A core link carries what the ordered router pairs that cross it send at full uplinks, rounded up to a
/// thousandth of an uplink: 1112 Mbit/s for one pair among ten routers with ten hosts of 1 Gbit/s.
fn set_rates(topology: &mut Topology) {
    let crossings = topology.routes().crossings();
    let routers = topology.routers.len() as u64;
    let pairs = u128::from(routers * routers.saturating_sub(1)).max(1);
    let full = u128::from(topology.nominal.capacity.bits_per_second());
    let step = u128::from((topology.nominal.rate.bits_per_second() / 1000).max(1));
    for (core, crossings) in topology.cores.iter_mut().zip(crossings.chunks_exact(2)) {
        let pairs_crossing = crossings.iter().copied().max().unwrap_or_default();
        let bits = (u128::from(pairs_crossing) * full).div_ceil(pairs).next_multiple_of(step);
        let bits = bits.max(topology.nominal.rate.bits_per_second().into());
        core.rate = u64::try_from(bits).ok().and_then(Rate::from_bits_per_second).unwrap_or(core.rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Map; 5] = [Map::Internet2, Map::Telstra, Map::Redclara, Map::Esnet, Map::Abilene];

    fn gbit(map: Map) -> Topology {
        let rate = Rate::from_bits_per_second(1_000_000_000).unwrap();
        map.topology(rate, Duration::from_millis(40), 10, Access::uplink(rate))
    }

    #[test]
    fn internet2_is_crossed_as_its_file_says() {
        #[derive(Deserialize)]
        struct MapLink {
            pairs_crossing: u32,
        }
        let topology = gbit(Map::Internet2);
        assert_eq!((topology.routers.len(), topology.hosts.len()), (10, 100));
        let rows: Vec<(u64, MapLink)> = table::rows(Map::Internet2.text(), "", &["pairs_crossing"]).unwrap();
        assert_eq!(rows.len(), 16);
        let crossings = topology.routes().crossings();
        for (n, (_, row)) in rows.iter().enumerate() {
            assert_eq!(crossings[2 * n..2 * n + 2], [row.pairs_crossing; 2], "link {n}");
        }
    }

    #[test]
    fn internet2_has_the_capacities_of_its_source() {
        // Mbit/s, as NetSys/ups has them.
        let expected = [
            5556, 7778, 14445, 3334, 3334, 5556, 1112, 3334, 5556, 4445, 10000, 14445, 1112, 8889, 2223, 7778,
        ];
        let topology = gbit(Map::Internet2);
        assert!(topology.cores.iter().all(|core| core.delay == Duration::from_millis(10)));
        let megabits: Vec<u64> =
            topology.cores.iter().map(|core| core.rate.bits_per_second() / 1_000_000).collect();
        assert_eq!(megabits, expected);
        assert_eq!(topology.nominal.bdp(), 5_000_000);
    }

    #[test]
    fn slower_uplinks_and_longer_paths_scale_everything() {
        let rate = Rate::from_bits_per_second(100_000_000).unwrap();
        let slow = Map::Internet2.topology(rate, Duration::from_millis(400), 10, Access::uplink(rate));
        for (slow, fast) in slow.cores.iter().zip(&gbit(Map::Internet2).cores) {
            assert_eq!(slow.delay, fast.delay * 10);
            let (slow, fast) = (slow.rate.bits_per_second(), fast.rate.bits_per_second());
            // Both round up, by 1 Mbit/s at most.
            assert!(slow * 10 <= fast + 1_000_000 && fast <= slow * 10 + 1_000_000, "{slow} {fast}");
        }
        assert_eq!(slow.nominal.bdp(), 5_000_000);
    }

    #[test]
    fn mean_round_trip_is_40_ms_within_a_per_cent() {
        // Microseconds one way per link, and what a mean over all pairs gives with it.
        for (map, delay) in
            [(Map::Telstra, 4333), (Map::Redclara, 8298), (Map::Esnet, 4626), (Map::Abilene, 8271)]
        {
            let topology = gbit(map);
            let rtt = topology.mean_rtt().as_secs_f64() * 1000.0;
            assert!((39.6..=40.4).contains(&rtt), "{map:?}: {rtt} ms");
            let micros = topology.cores[0].delay.as_nanos().div_ceil(1000);
            assert!(micros.abs_diff(delay) <= 1, "{map:?}: {micros} us");
        }
        let rtt = gbit(Map::Internet2).mean_rtt();
        assert_eq!(rtt.as_micros(), 39_555);
    }

    #[test]
    fn maps_are_connected_and_of_the_size_they_claim() {
        for (map, routers, cores) in [
            (Map::Internet2, 10, 16),
            (Map::Telstra, 104, 151),
            (Map::Redclara, 13, 17),
            (Map::Esnet, 68, 79),
            (Map::Abilene, 11, 14),
        ] {
            let topology = gbit(map);
            assert_eq!((topology.routers.len(), topology.cores.len()), (routers, cores), "{map:?}");
            let routes = topology.routes();
            assert!((0..routers).all(|to| routes.distance(0, to).is_some()), "{map:?}");
        }
    }

    #[test]
    fn no_core_link_is_slower_than_an_uplink() {
        for map in ALL {
            let topology = gbit(map);
            let slow = topology.cores.iter().filter(|core| core.rate < topology.nominal.rate).count();
            assert_eq!(slow, 0, "{map:?}");
        }
    }

    #[test]
    fn no_direction_is_used_more_than_its_link_was_sized_for() {
        for map in ALL {
            let topology = gbit(map);
            let pair = 1e10 / (topology.routers.len() - 1) as f64;
            for (n, crossing) in topology.routes().crossings().into_iter().enumerate() {
                let rate = topology.cores[n / 2].rate.bits_per_second() as f64;
                let full = f64::from(crossing) * pair / rate;
                assert!(full <= 1.0, "{map:?}: direction {n} is used {full}");
            }
        }
    }
}
