//! The queue of a port: one of the disciplines, with statistics, replaceable while packets are queued.

use std::time::Instant;

use kickass::{
    queue::{CoDel, DropTail, FqCodel, FqCodelConfig, Levels, Queue, Queued, StrictPriority},
    stats::Tally,
};

use super::{
    config::{PortConfig, QueueConfig},
    histogram::Histogram,
    passing::Passing,
    shares::Shares,
};

/// A discipline that limits short packets, and records queueing delays and reasons of drops.
pub(crate) struct PortQueue {
    discipline: Box<dyn Queue<Passing>>,
    shares: Shares,
    levels: Option<Levels>,
    /// Packets marked by earlier disciplines.
    marked_before: u64,
    pub(crate) delays: Histogram,
    /// Delays of packets at the best level, if the discipline has levels.
    pub(crate) best_delays: Histogram,
    /// Packets dropped on arrivals for lack of space.
    pub(crate) overflowed: u64,
    /// Short packets dropped on arrival because their port has used up its share.
    pub(crate) over_share: u64,
    /// Packets dropped on departure because of their delay.
    pub(crate) aged: u64,
}

impl PortQueue {
    pub(crate) fn new(port: &PortConfig, key: u64) -> Self {
        Self {
            discipline: discipline(port, key),
            shares: Shares::default(),
            levels: port.queue.levels(),
            marked_before: 0,
            delays: Histogram::default(),
            best_delays: Histogram::default(),
            overflowed: 0,
            over_share: 0,
            aged: 0,
        }
    }

    /// Changes to another discipline or limit. Queued packets move to it in the order in which they would have left.
    pub(crate) fn change(&mut self, now: Instant, port: &PortConfig, key: u64) {
        let mut new = discipline(port, key);
        let Self { discipline: old, shares, aged, overflowed, .. } = self;
        loop {
            let mut age = |packet: Passing| {
                *aged += 1;
                shares.release(packet.from, packet.bytes());
            };
            let Some(packet) = old.dequeue(now, &mut age) else { break };
            new.enqueue(now, packet, &mut |packet| {
                *overflowed += 1;
                shares.release(packet.from, packet.bytes());
            });
        }
        self.marked_before += self.discipline.marked();
        self.discipline = new;
        self.levels = port.queue.levels();
    }
}

fn discipline(port: &PortConfig, key: u64) -> Box<dyn Queue<Passing>> {
    let limit = port.buffer();
    match &port.queue {
        QueueConfig::DropTail => Box::new(DropTail::new(limit)),
        QueueConfig::StrictPriority { .. } => {
            Box::new(StrictPriority::new(port.queue.levels().unwrap_or_default(), limit))
        }
        QueueConfig::FqCodel { ecn, target, interval } => {
            let CoDel { target: target_default, interval: interval_default } = CoDel::default();
            Box::new(FqCodel::new(FqCodelConfig {
                limit,
                codel: CoDel {
                    target: target.unwrap_or(target_default),
                    interval: interval.unwrap_or(interval_default),
                },
                quantum: u32::from(port.mtu) + 14,
                ecn: *ecn,
                key,
                ..FqCodelConfig::default()
            }))
        }
    }
}

impl Queue<Passing> for PortQueue {
    fn enqueue(&mut self, now: Instant, packet: Passing, dropped: &mut dyn FnMut(Passing)) {
        let Self { discipline, shares, overflowed, over_share, .. } = self;
        if !shares.admit(packet.from, packet.bytes()) {
            *over_share += 1;
            return dropped(packet);
        }
        discipline.enqueue(now, packet, &mut |packet| {
            *overflowed += 1;
            shares.release(packet.from, packet.bytes());
            dropped(packet);
        });
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(Passing)) -> Option<Passing> {
        let Self { discipline, shares, aged, .. } = self;
        let packet = discipline.dequeue(now, &mut |packet| {
            *aged += 1;
            shares.release(packet.from, packet.bytes());
            dropped(packet);
        })?;
        shares.release(packet.from, packet.bytes());
        let delay = now.saturating_duration_since(packet.since);
        self.delays.add(delay);
        if self.levels.is_some() && self.is_best(&packet) {
            self.best_delays.add(delay);
        }
        Some(packet)
    }

    fn waiting(&self) -> Tally {
        self.discipline.waiting()
    }

    fn limit(&self) -> u64 {
        self.discipline.limit()
    }

    fn is_best(&self, packet: &Passing) -> bool {
        self.levels.as_ref().is_none_or(|levels| levels.of(packet.class()) == 0)
    }

    fn best_bytes(&self) -> u64 {
        self.discipline.best_bytes()
    }

    fn marked(&self) -> u64 {
        self.marked_before + self.discipline.marked()
    }
}
