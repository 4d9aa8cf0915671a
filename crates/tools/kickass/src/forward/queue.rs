//! The queue of a port: one of the disciplines, with statistics, replaceable while packets are queued.

use std::time::Instant;

use kickass::{
    offload::Segment,
    queue::{DropTail, FqCodel, FqCodelConfig, Levels, Queue, Queued, Routed, StrictPriority},
};

use super::{
    config::{PortConfig, QueueConfig},
    histogram::Histogram,
};

/// A packet and its arrival time.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    packet: Segment,
}

impl Queued for Waiting {
    fn bytes(&self) -> u64 {
        self.packet.bytes()
    }

    fn class(&self) -> u8 {
        self.packet.class()
    }
}

impl Routed for Waiting {
    fn flow_hash(&self, key: u64) -> u64 {
        self.packet.flow_hash(key)
    }

    fn mark_congestion(&mut self) -> bool {
        self.packet.mark_congestion()
    }
}

/// A discipline that records queueing delays and reasons of drops.
pub(crate) struct PortQueue {
    discipline: Box<dyn Queue<Waiting>>,
    levels: Option<Levels>,
    /// Packets marked by earlier disciplines.
    marked_before: u64,
    pub(crate) delays: Histogram,
    /// Delays of packets at the best level, if the discipline has levels.
    pub(crate) best_delays: Histogram,
    /// Packets dropped on arrivals for lack of space.
    pub(crate) overflowed: u64,
    /// Packets dropped on departure because of their delay.
    pub(crate) aged: u64,
}

impl PortQueue {
    pub(crate) fn new(port: &PortConfig, key: u64) -> Self {
        Self {
            discipline: discipline(port, key),
            levels: port.queue.levels(),
            marked_before: 0,
            delays: Histogram::default(),
            best_delays: Histogram::default(),
            overflowed: 0,
            aged: 0,
        }
    }

    /// Changes to another discipline or limit. Queued packets move to it in the order in which they would have left.
    pub(crate) fn change(&mut self, now: Instant, port: &PortConfig, key: u64) {
        let mut new = discipline(port, key);
        let (mut aged, mut overflowed) = (0, 0);
        while let Some(waiting) = self.discipline.dequeue(now, &mut |_| aged += 1) {
            new.enqueue(now, waiting, &mut |_| overflowed += 1);
        }
        self.aged += aged;
        self.overflowed += overflowed;
        self.marked_before += self.discipline.marked();
        self.discipline = new;
        self.levels = port.queue.levels();
    }
}

fn discipline(port: &PortConfig, key: u64) -> Box<dyn Queue<Waiting>> {
    let limit = port.buffer();
    match &port.queue {
        QueueConfig::DropTail => Box::new(DropTail::new(limit)),
        QueueConfig::StrictPriority { .. } => {
            Box::new(StrictPriority::new(port.queue.levels().unwrap_or_default(), limit))
        }
        QueueConfig::FqCodel { ecn, .. } => Box::new(FqCodel::new(FqCodelConfig {
            limit,
            codel: port.queue.codel(),
            quantum: u32::from(port.mtu) + 14,
            ecn: *ecn,
            key,
            ..FqCodelConfig::default()
        })),
    }
}

impl Queue<Segment> for PortQueue {
    fn enqueue(&mut self, now: Instant, packet: Segment, dropped: &mut dyn FnMut(Segment)) {
        let overflowed = &mut self.overflowed;
        self.discipline.enqueue(now, Waiting { since: now, packet }, &mut |waiting| {
            *overflowed += 1;
            dropped(waiting.packet);
        });
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(Segment)) -> Option<Segment> {
        let aged = &mut self.aged;
        let waiting = self.discipline.dequeue(now, &mut |waiting| {
            *aged += 1;
            dropped(waiting.packet);
        })?;
        let delay = now.saturating_duration_since(waiting.since);
        self.delays.add(delay);
        if self.levels.is_some() && self.is_best(&waiting.packet) {
            self.best_delays.add(delay);
        }
        Some(waiting.packet)
    }

    fn bytes(&self) -> u64 {
        self.discipline.bytes()
    }

    fn packets(&self) -> usize {
        self.discipline.packets()
    }

    fn limit(&self) -> u64 {
        self.discipline.limit()
    }

    fn is_best(&self, packet: &Segment) -> bool {
        self.levels.as_ref().is_none_or(|levels| levels.of(packet.class()) == 0)
    }

    fn best_bytes(&self) -> u64 {
        self.discipline.best_bytes()
    }

    fn marked(&self) -> u64 {
        self.marked_before + self.discipline.marked()
    }
}

impl std::fmt::Debug for PortQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PortQueue").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}
