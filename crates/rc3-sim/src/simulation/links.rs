//! What each link of a world carried, dropped and queued.

use std::time::Duration;

use rc3_core::units::Rate;

use crate::{
    LinkStats,
    topology::{Site, Topology},
    world::{LinkId, World},
};

/// The results of one link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkReport {
    /// The link.
    pub site: Site,
    /// Its rate; `None` is infinitely fast.
    pub rate: Option<Rate>,
    /// Part of its rate in use, 0 to 1, during the measured interval; `None` without a rate. The interval begins when the first
    /// measured flow starts. It ends when the last one does, if flows arrive at random and the world has no end of its own, and
    /// otherwise with the world.
    pub utilisation: Option<f64>,
    /// Counters of the whole run, by level, with the longest queue.
    pub stats: LinkStats,
}

/// The links of a world, with what they had delivered at both ends of the measured interval.
#[derive(Debug)]
pub(super) struct Links {
    sites: Vec<(Site, Option<Rate>)>,
    /// Whether the interval ends with the arrivals.
    ends_with_arrivals: bool,
    begin: Option<Reading>,
    end: Option<Reading>,
}

/// Bytes that each link had delivered at an instant.
#[derive(Debug)]
struct Reading {
    at: Duration,
    bytes: Vec<u64>,
}

impl Links {
    pub(super) fn new(topology: &Topology, ends_with_arrivals: bool) -> Self {
        Self { sites: topology.links().collect(), ends_with_arrivals, begin: None, end: None }
    }

    /// A measured flow starts; `left` are still to come.
    pub(super) fn on_measured(&mut self, world: &World, left: u64) {
        if self.begin.is_none() {
            self.begin = Some(self.reading(world));
        }
        if left == 0 && self.ends_with_arrivals {
            self.end = Some(self.reading(world));
        }
    }

    fn reading(&self, world: &World) -> Reading {
        let bytes =
            (0..self.sites.len()).map(|link| world.link_stats(LinkId(link as u32)).total().delivered.bytes);
        Reading { at: world.elapsed(), bytes: bytes.collect() }
    }

    /// The results of all links that carried a packet, in the order of the topology.
    pub(super) fn reports(&self, world: &World) -> Vec<LinkReport> {
        let now = self.reading(world);
        // An interval of no length says nothing.
        let end = self.end.as_ref().filter(|end| self.begin.as_ref().is_some_and(|begin| begin.at < end.at));
        let end = end.unwrap_or(&now);
        let report = |(index, (site, rate)): (usize, &(Site, Option<Rate>))| {
            let stats = world.link_stats(LinkId(index as u32)).clone();
            let begin = self.begin.as_ref();
            let bytes = end.bytes[index] - begin.map_or(0, |begin| begin.bytes[index]);
            let seconds = (end.at - begin.map_or(Duration::ZERO, |begin| begin.at)).as_secs_f64();
            let share = |rate: Rate| 8.0 * bytes as f64 / seconds / rate.bits_per_second() as f64;
            let utilisation = rate.map(share).filter(|share| share.is_finite());
            LinkReport { site: *site, rate: *rate, utilisation, stats }
        };
        self.sites
            .iter()
            .enumerate()
            .map(report)
            .filter(|link| link.stats.total().offered.packets > 0)
            .collect()
    }
}
