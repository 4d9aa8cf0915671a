//! Sender and receiver of a flow: two random hosts at different routers.

use std::ops::Range;

use crate::{agent::HostId, random::Random, topology::Topology};

/// Which hosts send and which receive. Without restriction every host does both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ends {
    /// Routers whose hosts send; all of them without.
    pub from: Option<Vec<usize>>,
    /// Routers whose hosts receive; all of them without.
    pub to: Option<Vec<usize>>,
}

impl Ends {
    /// The pairs to draw from. `None` if no flow is possible: there is no sender, or a sender has no receiver at another
    /// router.
    pub fn pairs(&self, topology: &Topology) -> Option<Pairs> {
        let hosts = |routers: &Option<Vec<usize>>| {
            let chosen = |router| routers.as_ref().is_none_or(|routers| routers.contains(&router));
            let mut hosts: Vec<(usize, HostId)> = (0_u32..)
                .zip(&topology.hosts)
                .filter(|(_, site)| chosen(site.router))
                .map(|(host, site)| (site.router, HostId(host)))
                .collect();
            hosts.sort_unstable();
            hosts
        };
        let (senders, receivers) = (hosts(&self.from), hosts(&self.to));
        let lonely = |router| receivers.iter().all(|(other, _)| *other == router);
        if senders.is_empty() || senders.iter().any(|(router, _)| lonely(*router)) {
            return None;
        }
        Some(Pairs { senders, receivers })
    }
}

/// Hosts to draw from, ordered by router.
#[derive(Debug, Clone)]
pub struct Pairs {
    senders: Vec<(usize, HostId)>,
    receivers: Vec<(usize, HostId)>,
}

impl Pairs {
    /// A random sender, and a random receiver at another router.
    pub(super) fn draw(&self, random: &mut Random) -> (HostId, HostId) {
        let at = random.below(self.senders.len());
        self.draw_from(at, random)
    }

    /// The `n`-th sender, counted round, and a random receiver at another router.
    pub(super) fn draw_from(&self, n: usize, random: &mut Random) -> (HostId, HostId) {
        let (router, from) = self.senders[n % self.senders.len()];
        let own = self.at_router(router);
        let mut at = random.below(self.receivers.len() - own.len());
        if at >= own.start {
            at += own.len();
        }
        (from, self.receivers[at].1)
    }

    /// The receivers at a router.
    fn at_router(&self, router: usize) -> Range<usize> {
        self.receivers.partition_point(|(other, _)| *other < router)
            ..self.receivers.partition_point(|(other, _)| *other <= router)
    }

    /// The share of the flows that each sender sends.
    pub(crate) fn sent(&self) -> impl Iterator<Item = (HostId, f64)> {
        self.senders.iter().map(|(_, host)| (*host, 1.0 / self.senders.len() as f64))
    }

    /// The share of the flows that each receiver receives.
    pub(crate) fn received(&self) -> Vec<(HostId, f64)> {
        let senders = groups(&self.senders);
        // All receivers at a router have the same share.
        let share = |router: usize| -> f64 {
            let of = |&(from, _, count): &(usize, HostId, usize)| {
                let receivers = self.receivers.len() - self.at_router(from).len();
                count as f64 / self.senders.len() as f64 / receivers as f64
            };
            senders.iter().filter(|group| group.0 != router).map(of).sum()
        };
        let same = |a: &(usize, HostId), b: &(usize, HostId)| a.0 == b.0;
        let of_router = |group: &[(usize, HostId)]| {
            let share = share(group[0].0);
            group.iter().map(|(_, host)| (*host, share)).collect::<Vec<_>>()
        };
        self.receivers.chunk_by(same).flat_map(of_router).collect()
    }

    /// The share of the flows between two routers, each as one of its hosts.
    pub(crate) fn between_routers(&self) -> Vec<(HostId, HostId, f64)> {
        let (senders, receivers) = (groups(&self.senders), groups(&self.receivers));
        let mut pairs = Vec::new();
        for &(from, sender, count) in &senders {
            let sent = count as f64 / self.senders.len() as f64;
            let all = self.receivers.len() - self.at_router(from).len();
            for &(_, receiver, count) in receivers.iter().filter(|group| group.0 != from) {
                pairs.push((sender, receiver, sent * count as f64 / all as f64));
            }
        }
        pairs
    }
}

/// The routers among hosts ordered by router, each with its first host and how many there are.
fn groups(hosts: &[(usize, HostId)]) -> Vec<(usize, HostId, usize)> {
    let same = |a: &(usize, HostId), b: &(usize, HostId)| a.0 == b.0;
    hosts.chunk_by(same).map(|group| (group[0].0, group[0].1, group.len())).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use rc3_core::units::Rate;

    use super::*;
    use crate::topology::{Access, Map, dumbbell};

    fn internet2() -> Topology {
        let rate = Rate::from_bits_per_second(1_000_000_000).unwrap();
        Map::Internet2.topology(rate, Duration::from_millis(40), 2, Access::uplink(rate))
    }

    #[test]
    fn every_host_sends_to_every_host_at_another_router_alike() {
        let topology = internet2();
        let pairs = Ends::default().pairs(&topology).unwrap();
        let mut random = Random::new(1);
        let mut drawn = BTreeMap::<(HostId, HostId), u32>::new();
        for _ in 0..360 * 400 {
            *drawn.entry(pairs.draw(&mut random)).or_default() += 1;
        }
        assert_eq!(drawn.len(), 20 * 18);
        assert!(drawn.keys().all(|(from, to)| topology.router_of(*from) != topology.router_of(*to)));
        // 400 each, five standard deviations of 20.
        assert!(drawn.values().all(|count| (300..=500).contains(count)), "{drawn:?}");
    }

    #[test]
    fn restricted_ends_stay_at_their_routers() {
        let topology = internet2();
        let ends = Ends { from: Some(vec![3]), to: Some(vec![7, 3]) };
        let pairs = ends.pairs(&topology).unwrap();
        let mut random = Random::new(1);
        for _ in 0..100 {
            let (from, to) = pairs.draw(&mut random);
            assert_eq!((topology.router_of(from), topology.router_of(to)), (3, 7));
        }
    }

    #[test]
    fn without_possible_pairs_there_is_nothing_to_draw() {
        let topology = internet2();
        let pairs = |from: &[usize], to: &[usize]| {
            Ends { from: Some(from.to_vec()), to: Some(to.to_vec()) }.pairs(&topology).is_some()
        };
        assert!(!pairs(&[], &[1]));
        assert!(!pairs(&[1], &[]));
        assert!(!pairs(&[1], &[1]));
        assert!(!pairs(&[1, 2], &[1]));
        assert!(pairs(&[1, 2], &[1, 2]));
        let rate = Rate::from_bits_per_second(1).unwrap();
        let alone = dumbbell(rate, Duration::ZERO, 0, Access::uplink(rate));
        assert!(Ends::default().pairs(&alone).is_none());
    }
}
