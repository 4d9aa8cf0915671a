//! Changes of a network: what the papers' robustness experiments do to it (RC3 §5.1.2, §6).

use std::time::Duration;

use rc3_core::units::Rate;

use super::Topology;
use crate::random::Random;

impl Topology {
    /// Multiplies the rate of each core link by a number drawn uniformly between `low` and `high`.
    ///
    /// RC3 §5.1.2 draws core rates between 500 Mbit/s and 2 Gbit/s. For links of 1.1 to 14.4 Gbit/s half to twice
    /// their rate is a stand-in for that, and a weak one. The offered load stays as it was.
    pub fn vary_core_rates(&mut self, low: f64, high: f64, seed: u64) {
        let mut random = Random::new(seed);
        for core in &mut self.cores {
            let factor = low + (high - low) * random.unit();
            let bits = (core.rate.bits_per_second() as f64 * factor) as u64;
            core.rate = Rate::from_bits_per_second(bits).unwrap_or(core.rate);
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
        for router in 0..self.routers.len() {
            let mut hosts: Vec<_> = self.hosts.iter_mut().filter(|host| host.router == router).collect();
            let count = (share * hosts.len() as f64).round() as usize;
            hosts.iter_mut().take(count).for_each(|host| host.priorities = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Access, Map};

    fn internet2() -> Topology {
        let rate = Rate::from_bits_per_second(1_000_000_000).unwrap();
        Map::Internet2.topology(rate, Duration::from_millis(40), 10, Access::uplink(rate))
    }

    #[test]
    fn core_rates_vary_within_their_bounds_and_by_seed() {
        let even = internet2();
        let vary = |seed| {
            let mut topology = even.clone();
            topology.vary_core_rates(0.5, 2.0, seed);
            topology
        };
        let factors = |topology: &Topology| -> Vec<f64> {
            let rate = |rate: Rate| rate.bits_per_second() as f64;
            topology.cores.iter().zip(&even.cores).map(|(a, b)| rate(a.rate) / rate(b.rate)).collect()
        };
        let factors_of_1 = factors(&vary(1));
        assert!(factors_of_1.iter().all(|factor| (0.499..2.0).contains(factor)), "{factors_of_1:?}");
        assert!(factors_of_1.iter().any(|&factor| factor < 1.0));
        assert!(factors_of_1.iter().any(|&factor| factor > 1.0));
        assert_eq!(vary(1), vary(1));
        assert_ne!(vary(1), vary(2));
        assert_eq!(vary(1).nominal, even.nominal);
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
