//! Which core links lead from one host to another: shortest paths, counted in core links.

use std::{collections::VecDeque, time::Duration};

use super::{Routing, Topology};
use crate::{agent::HostId, random::derive};

/// One direction of a core link: twice the link's place in [`Topology::cores`], plus one from `b` to `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirectedCore(u32);

impl DirectedCore {
    /// The direction from `a` to `b` of a core link, or else the other one.
    pub fn new(core: usize, forward: bool) -> Self {
        Self(u32::try_from(2 * core).expect("few links") + u32::from(!forward))
    }

    /// The place of the link in [`Topology::cores`].
    pub fn core(self) -> usize {
        self.index() / 2
    }

    /// Whether it leads from `a` to `b`.
    pub fn is_forward(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// Its place in a table of all directions, two for each core link.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The router it leads to.
    ///
    /// # Panics
    /// If `topology` has no such link.
    pub fn end(self, topology: &Topology) -> usize {
        let core = &topology.cores[self.core()];
        if self.is_forward() { core.b } else { core.a }
    }
}

/// The routes of a network.
#[derive(Debug, Clone)]
pub struct Routes {
    routing: Routing,
    routers: usize,
    router_of: Vec<usize>,
    /// Core links from router `at` to router `to`, at `at * routers + to`; [`u32::MAX`] without a path.
    distance: Vec<u32>,
    /// Where the candidates of `at * routers + to` begin in `candidates`; one more at the end.
    begin: Vec<usize>,
    /// First steps of all shortest paths, the lowest-numbered neighbour first.
    candidates: Vec<DirectedCore>,
    /// The router each direction of a core link leads to.
    ends: Vec<usize>,
}

impl Routes {
    pub(super) fn new(topology: &Topology) -> Self {
        let routers = topology.routers.len();
        let ends: Vec<usize> = topology.cores.iter().flat_map(|core| [core.b, core.a]).collect();
        let mut steps: Vec<Vec<DirectedCore>> = vec![Vec::new(); routers];
        for (at, core) in topology.cores.iter().enumerate() {
            steps[core.a].push(DirectedCore::new(at, true));
            steps[core.b].push(DirectedCore::new(at, false));
        }
        for steps in &mut steps {
            steps.sort_by_key(|step| (ends[step.index()], *step));
        }

        // Links are alike in both directions, so the distance to a router is the one from it.
        let distance: Vec<u32> = (0..routers).flat_map(|from| distances(from, &steps, &ends)).collect();
        let mut begin = vec![0];
        let mut candidates = Vec::new();
        for (at, steps) in steps.iter().enumerate() {
            for to in 0..routers {
                let here = distance[at * routers + to];
                candidates.extend(steps.iter().filter(|step| {
                    let there = distance[ends[step.index()] * routers + to];
                    there != u32::MAX && there + 1 == here
                }));
                begin.push(candidates.len());
            }
        }
        let router_of = topology.hosts.iter().map(|host| host.router).collect();
        Self { routing: topology.routing, routers, router_of, distance, begin, candidates, ends }
    }

    /// The core link that a packet from one host to another takes at router `at`; `None` where it leaves for its
    /// host, or if no path leads there.
    ///
    /// # Panics
    /// If there is no such router or host.
    pub fn next_hop(&self, at: usize, from: HostId, to: HostId) -> Option<DirectedCore> {
        let candidates = self.candidates(at, self.router_of[to.0 as usize]);
        match self.routing {
            Routing::LowestNeighbour => candidates.first().copied(),
            Routing::HashOfEnds if candidates.is_empty() => None,
            Routing::HashOfEnds => {
                // The router is hashed too, else those of the second stage would only see one half of the hashes.
                let hash = derive(u64::from(from.0) << 32 | u64::from(to.0), at as u64);
                Some(candidates[(hash % candidates.len() as u64) as usize])
            }
        }
    }

    /// The core links from one host to another, in order; none between hosts of one router.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn path(&self, from: HostId, to: HostId) -> Vec<DirectedCore> {
        let mut at = self.router_of[from.0 as usize];
        let mut path = Vec::new();
        while let Some(step) = self.next_hop(at, from, to) {
            at = self.ends[step.index()];
            path.push(step);
        }
        path
    }

    /// Core links from one host to another; `None` if no path leads there.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn hops(&self, from: HostId, to: HostId) -> Option<usize> {
        self.distance(self.router_of[from.0 as usize], self.router_of[to.0 as usize])
    }

    /// Core links from router to router.
    pub(super) fn distance(&self, from: usize, to: usize) -> Option<usize> {
        let distance = self.distance[from * self.routers + to];
        (distance != u32::MAX).then_some(distance as usize)
    }

    /// For each direction of each core link how many of the ordered pairs of routers with hosts send through it,
    /// by way of lowest-numbered neighbours.
    pub(super) fn crossings(&self) -> Vec<u32> {
        let mut crossings = vec![0; self.ends.len()];
        for (mut at, to) in self.pairs_with_hosts() {
            while let Some(step) = self.candidates(at, to).first() {
                crossings[step.index()] += 1;
                at = self.ends[step.index()];
            }
        }
        crossings
    }

    /// Mean number of core links between two routers with hosts, over ordered pairs that can reach each other.
    pub(super) fn mean_distance(&self) -> f64 {
        mean(self.pairs_with_hosts().filter_map(|(from, to)| self.distance(from, to)).map(|n| n as f64))
    }

    pub(super) fn mean_rtt(&self, topology: &Topology) -> Duration {
        let trips = self.pairs_with_hosts().filter(|&(from, to)| self.distance(from, to).is_some());
        // There and back of all pairs is twice the way there of all pairs.
        let seconds = trips.map(|(from, to)| {
            let mut at = from;
            let mut delay = Duration::ZERO;
            while let Some(step) = self.candidates(at, to).first() {
                delay += topology.cores[step.core()].delay;
                at = self.ends[step.index()];
            }
            2.0 * delay.as_secs_f64()
        });
        Duration::from_secs_f64(mean(seconds))
    }

    /// Ordered pairs of routers with hosts.
    pub(super) fn pairs_with_hosts(&self) -> impl Iterator<Item = (usize, usize)> {
        let mut routers = self.router_of.clone();
        routers.sort_unstable();
        routers.dedup();
        let others = routers.clone();
        routers.into_iter().flat_map(move |from| {
            others.clone().into_iter().filter(move |&to| to != from).map(move |to| (from, to))
        })
    }

    fn candidates(&self, at: usize, to: usize) -> &[DirectedCore] {
        let place = at * self.routers + to;
        &self.candidates[self.begin[place]..self.begin[place + 1]]
    }
}

/// Steps from `from` to every router, breadth first.
fn distances(from: usize, steps: &[Vec<DirectedCore>], ends: &[usize]) -> Vec<u32> {
    let mut distances = vec![u32::MAX; steps.len()];
    distances[from] = 0;
    let mut reached = VecDeque::from([from]);
    while let Some(at) = reached.pop_front() {
        for step in &steps[at] {
            let end = ends[step.index()];
            if distances[end] == u32::MAX {
                distances[end] = distances[at] + 1;
                reached.push_back(end);
            }
        }
    }
    distances
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_u64, 0.0), |(count, sum), value| (count + 1, sum + value));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rc3_core::units::Rate;

    use super::*;
    use crate::topology::{Access, Core, Nominal, routers};

    fn rate() -> Rate {
        Rate::from_bits_per_second(1_000_000_000).unwrap()
    }

    /// One host at each router.
    fn topology(count: usize, links: &[(usize, usize)], routing: Routing) -> Topology {
        let delay = Duration::from_millis(1);
        let mut topology = Topology {
            routers: routers((0..count).map(|n| n.to_string())),
            hosts: Vec::new(),
            cores: links.iter().map(|&(a, b)| Core { a, b, rate: rate(), delay }).collect(),
            routing,
            nominal: Nominal { rate: rate(), rtt: delay, capacity: rate() },
        };
        topology.attach(0..count, 1, Access::uplink(rate()));
        topology
    }

    #[test]
    fn ties_go_to_the_lowest_numbered_neighbour() {
        // A square whose link to router 2 is written first.
        let topology = topology(4, &[(0, 2), (2, 3), (0, 1), (3, 1)], Routing::LowestNeighbour);
        let path = topology.routes().path(HostId(0), HostId(3));
        assert_eq!(path, [DirectedCore::new(2, true), DirectedCore::new(3, false)]);
    }

    #[test]
    fn where_no_path_leads_there_is_none() {
        let routes = topology(3, &[(0, 1)], Routing::LowestNeighbour).routes();
        assert_eq!(routes.hops(HostId(0), HostId(2)), None);
        assert_eq!(routes.next_hop(0, HostId(0), HostId(2)), None);
        assert!(routes.path(HostId(0), HostId(2)).is_empty());
        assert_eq!(routes.hops(HostId(0), HostId(0)), Some(0));
    }

    proptest! {
        #[test]
        fn every_path_is_shortest_and_ends_at_its_host(
            links in proptest::collection::vec((0..9_usize, 0..9_usize), 0..30),
            hashed: bool,
        ) {
            let links: Vec<_> = links.into_iter().filter(|(a, b)| a != b).collect();
            let routing = if hashed { Routing::HashOfEnds } else { Routing::LowestNeighbour };
            let topology = topology(9, &links, routing);
            let routes = topology.routes();
            // Floyd and Warshall's algorithm, for another opinion.
            let mut oracle = [[100_usize; 9]; 9];
            oracle.iter_mut().enumerate().for_each(|(at, row)| row[at] = 0);
            for &(a, b) in &links {
                oracle[a][b] = 1;
                oracle[b][a] = 1;
            }
            for via in 0..9 {
                for a in 0..9 {
                    for b in 0..9 {
                        oracle[a][b] = oracle[a][b].min(oracle[a][via] + oracle[via][b]);
                    }
                }
            }
            for from in 0..9_u32 {
                for to in 0..9_u32 {
                    let expected = oracle[from as usize][to as usize];
                    let path = routes.path(HostId(from), HostId(to));
                    if expected == 100 {
                        prop_assert_eq!(routes.hops(HostId(from), HostId(to)), None);
                        prop_assert!(path.is_empty());
                        continue;
                    }
                    prop_assert_eq!(routes.hops(HostId(from), HostId(to)), Some(expected));
                    prop_assert_eq!(path.len(), expected);
                    let mut at = from as usize;
                    for step in path {
                        let core = &topology.cores[step.core()];
                        prop_assert_eq!(at, if step.is_forward() { core.a } else { core.b });
                        at = step.end(&topology);
                    }
                    prop_assert_eq!(at, to as usize);
                }
            }
        }
    }
}
