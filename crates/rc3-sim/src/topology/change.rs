//! Changes of a network: what the papers' robustness experiments do to it (RC3 §5.1.2, §6).

use std::time::Duration;

use rc3_core::units::Rate;

use super::Topology;
use crate::random::Random;

impl Topology {
    /// Draws the rate of each core link uniformly between `low` and `high` (RC3 §5.1.2 with 500 Mbit/s and 2 Gbit/s). A load
    /// of 1 then is a mean utilisation of 1 over the core links, if every host sends to hosts at all other routers alike.
    pub fn draw_core_rates(&mut self, low: Rate, high: Rate, seed: u64) {
        let mut random = Random::new(seed);
        let (low, high) = (low.bits_per_second() as f64, high.bits_per_second() as f64);
        for core in &mut self.cores {
            let bits = (low + (high - low) * random.unit()) as u64;
            core.rate = Rate::from_bits_per_second(bits).unwrap_or(core.rate);
        }
        let routes = self.routes();
        let pairs = routes.pairs_with_hosts().count() as f64;
        let crossings = routes.crossings();
        let share = |(direction, &crossing): (usize, &u32)| {
            f64::from(crossing) / pairs / self.cores[direction / 2].rate.bits_per_second() as f64
        };
        // Utilisation per bit and second of all hosts' traffic.
        let mean = crossings.iter().enumerate().map(share).sum::<f64>() / crossings.len() as f64;
        if let Some(capacity) = Rate::from_bits_per_second((1.0 / mean) as u64) {
            self.nominal.capacity = capacity;
        }
    }

    /// Gives the access links of the hosts of a router round trips from `first` to `last`, evenly spread.
    pub fn spread_access(&mut self, router: usize, first: Duration, last: Duration) {
        let mut hosts: Vec<_> = self.hosts.iter_mut().filter(|host| host.router == router).collect();
        let steps = hosts.len().saturating_sub(1).max(1) as f64;
        for (at, host) in hosts.iter_mut().enumerate() {
            let rtt = first + last.saturating_sub(first).mul_f64(at as f64 / steps);
            host.access.delay = rtt / 2;
        }
    }

    /// Takes the priorities away from a share (0 to 1) of the routers, rounded to the next whole number and
    /// drawn by `seed` (RC3 §6, partial support). A larger share of the same seed takes them from the same
    /// routers and some more.
    pub fn withdraw_priorities(&mut self, share: f64, seed: u64) {
        let mut random = Random::new(seed);
        let mut order: Vec<usize> = (0..self.routers.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at + 1));
        }
        let count = (share * order.len() as f64).round() as usize;
        for &router in order.iter().take(count) {
            self.routers[router].priorities = false;
        }
    }

    /// Takes the priorities away from the uplinks of a share (0 to 1) of the hosts of each router, the first ones.
    pub fn withdraw_priorities_of_hosts(&mut self, share: f64) {
        let first = self.first_hosts(share);
        self.hosts.iter_mut().zip(first).for_each(|(host, first)| host.priorities &= !first);
    }

    /// Whether each host is among a share (0 to 1) of those of its router, the first ones.
    pub(crate) fn first_hosts(&self, share: f64) -> Vec<bool> {
        let mut attached = vec![0_u32; self.routers.len()];
        self.hosts.iter().for_each(|host| attached[host.router] += 1);
        let mut before = vec![0_u32; self.routers.len()];
        let is_first = self.hosts.iter().map(|host| {
            let before = &mut before[host.router];
            *before += 1;
            f64::from(*before) <= (share * f64::from(attached[host.router])).round()
        });
        is_first.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Access, Map, fat_tree};

    fn internet2() -> Topology {
        let rate = Rate::from_bits_per_second(1_000_000_000).unwrap();
        Map::Internet2.topology(rate, Duration::from_millis(40), 10, Access::uplink(rate))
    }

    #[test]
    fn core_rates_are_drawn_by_seed_and_load_is_their_mean_utilisation() {
        let bounds = [500_000_000, 2_000_000_000];
        let drawn = |seed| {
            let mut topology = internet2();
            let [low, high] = bounds.map(|bits| Rate::from_bits_per_second(bits).unwrap());
            topology.draw_core_rates(low, high, seed);
            topology
        };
        let rates: Vec<u64> = drawn(1).cores.iter().map(|core| core.rate.bits_per_second()).collect();
        assert!(rates.iter().all(|rate| (bounds[0]..bounds[1]).contains(rate)), "{rates:?}");
        assert!(
            rates.iter().any(|&rate| rate < 1_000_000_000) && rates.iter().any(|&rate| rate > 1_500_000_000)
        );
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        // Traffic of a router pair when all hosts together send at the capacity.
        let topology = drawn(1);
        let pair = topology.nominal.capacity.bits_per_second() as f64 / 90.0;
        let crossings = topology.routes().crossings();
        let used = crossings.iter().zip(0..).map(|(&crossing, n): (_, usize)| {
            f64::from(crossing) * pair / topology.cores[n / 2].rate.bits_per_second() as f64
        });
        assert!((used.sum::<f64>() / crossings.len() as f64 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn routers_without_hosts_send_nothing() {
        let rate = Rate::from_bits_per_second(1_000_000_000).unwrap();
        let mut topology = fat_tree(4, rate, Duration::from_micros(96));
        topology.draw_core_rates(rate, rate, 1);
        let carried = topology.nominal.capacity.bits_per_second() as f64 * topology.routes().mean_distance();
        let cores = 2.0 * topology.cores.len() as f64 * rate.bits_per_second() as f64;
        assert!((carried / cores - 1.0).abs() < 1e-6, "{}", carried / cores);
    }

    #[test]
    fn a_share_of_the_hosts_of_each_router_loses_its_priorities() {
        let mut topology = internet2();
        topology.withdraw_priorities_of_hosts(0.5);
        for router in 0..topology.routers.len() {
            let hosts = topology.hosts.iter().filter(|host| host.router == router);
            assert_eq!(hosts.filter(|host| !host.priorities).count(), 5);
        }
    }

    #[test]
    fn a_share_of_the_routers_loses_its_priorities_and_a_larger_one_contains_it() {
        let without = |share, seed| {
            let mut topology = internet2();
            topology.withdraw_priorities(share, seed);
            let routers = topology.routers.iter().enumerate();
            routers.filter(|(_, router)| !router.priorities).map(|(n, _)| n).collect::<Vec<_>>()
        };
        assert!(without(0.0, 1).is_empty());
        assert_eq!(without(0.2, 1).len(), 2);
        assert_eq!(without(0.5, 1).len(), 5);
        assert_eq!(without(1.0, 1).len(), 10);
        assert!(without(0.2, 1).iter().all(|router| without(0.5, 1).contains(router)));
        assert!((2..20).any(|seed| without(0.5, seed) != without(0.5, 1)));
    }
}
