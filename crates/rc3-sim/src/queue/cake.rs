//! CAKE's `diffserv3` as far as low priority is concerned: marked packets are in the Bulk tin, all others in Best Effort,
//! and the tins share a busy link by weight. In each, flows take turns under CoDel.
//!
//! CAKE itself has COBALT in the place of CoDel, fairness between hosts above that between flows, and a third tin, which
//! rc3 does not use.

use std::time::Instant;

use rc3_queue::FqCodelConfig;

use crate::{FqCodel, Queue, Routed, Tally, Waiting};

/// Bytes that a tin may send in its turn: Bulk's weight and Best Effort's (tc-cake(8), `sch_cake.c`).
const BULK: i64 = 64;
const BEST_EFFORT: i64 = 1024;

/// Two tins that share the link 64 : 1024 while both have packets.
#[derive(Debug)]
pub struct Cake<T> {
    best_effort: Tin<T>,
    bulk: Tin<T>,
}

#[derive(Debug)]
struct Tin<T> {
    flows: FqCodel<Waiting<T>>,
    quantum: i64,
    deficit: i64,
}

impl<T: Routed> Tin<T> {
    fn new(quantum: i64, limit: u64, key: u64) -> Self {
        let config = FqCodelConfig { limit, key, ..FqCodelConfig::default() };
        Self { flows: FqCodel::new(config), quantum, deficit: quantum }
    }
}

impl<T: Routed> Cake<T> {
    /// Empty tins of at most `limit` bytes each. `key` decides which flows share a queue.
    pub fn new(limit: u64, key: u64) -> Self {
        Self { best_effort: Tin::new(BEST_EFFORT, limit, key), bulk: Tin::new(BULK, limit, key) }
    }

    /// Whose turn it is, of tins with packets.
    fn next(&mut self) -> Option<&mut Tin<T>> {
        let Self { best_effort, bulk } = self;
        match (best_effort.flows.is_empty(), bulk.flows.is_empty()) {
            (true, true) => None,
            (false, true) => Some(best_effort),
            (true, false) => Some(bulk),
            (false, false) => loop {
                for tin in [&mut *best_effort, &mut *bulk] {
                    tin.deficit = tin.deficit.min(tin.quantum);
                }
                if best_effort.deficit > 0 {
                    return Some(best_effort);
                }
                if bulk.deficit > 0 {
                    return Some(bulk);
                }
                best_effort.deficit += best_effort.quantum;
                bulk.deficit += bulk.quantum;
            },
        }
    }
}

impl<T: Routed> Queue<Waiting<T>> for Cake<T> {
    fn enqueue(&mut self, now: Instant, packet: Waiting<T>, dropped: &mut dyn FnMut(Waiting<T>)) {
        let tin = if packet.level.is_primary() { &mut self.best_effort } else { &mut self.bulk };
        tin.flows.enqueue(now, packet, dropped);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        // CoDel may drop all that a tin has.
        while let Some(tin) = self.next() {
            if let Some(packet) = tin.flows.dequeue(now, dropped) {
                tin.deficit -= packet.size as i64;
                // A tin owes nothing for a link that the other tin left idle.
                if self.best_effort.flows.is_empty() || self.bulk.flows.is_empty() {
                    for tin in [&mut self.best_effort, &mut self.bulk] {
                        tin.deficit = tin.deficit.max(0);
                    }
                }
                return Some(packet);
            }
        }
        None
    }

    fn waiting(&self) -> Tally {
        let mut waiting = self.best_effort.flows.waiting();
        waiting += self.bulk.flows.waiting();
        waiting
    }

    fn limit(&self) -> u64 {
        self.best_effort.flows.limit().saturating_add(self.bulk.flows.limit())
    }
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Level;

    use super::*;
    use crate::{Packet, Stamped, agent::Parcel, queue::ip::tests::parcel};

    fn stamped(now: Instant, flow: u32, level: Level) -> Waiting<Parcel> {
        let Packet { size, payload, .. } = parcel(flow, 0);
        Packet { size, level, payload: Stamped::new(now, payload) }
    }

    #[test]
    fn a_full_link_is_shared_by_weight_and_an_idle_one_is_anybodys() {
        let now = Instant::now();
        let mut queue = Cake::new(u64::MAX, 0);
        for _ in 0..2000 {
            for level in [Level::PRIMARY, Level::FIRST] {
                queue.enqueue(now, stamped(now, 1, level), &mut |_| panic!("dropped"));
            }
        }
        let of_a_thousand = (0..1000).filter_map(|_| queue.dequeue(now, &mut |_| panic!("dropped")));
        let bulk = of_a_thousand.filter(|packet| !packet.level.is_primary()).count();
        // 64 of 1088.
        assert!((57..=61).contains(&bulk), "{bulk}");
        let rest = std::iter::from_fn(|| queue.dequeue(now, &mut |_| panic!("dropped"))).count();
        assert_eq!(rest, 3000);
    }
}
