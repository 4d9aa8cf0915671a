//! Who is to be woken next.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, binary_heap::PeekMut},
    time::{Duration, Instant},
};

/// Something in the world that asks to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleeper {
    /// A link, when a packet arrives at its end.
    Link(u32),
    /// A host, at its agent's timeout or when its uplink has room.
    Host(u32),
}

/// The wishes of all sleepers, earliest first; equal instants with links before hosts and each in the order of their
/// numbers, so that nothing hangs on the order in which they were made known.
///
/// Each sleeper has one wish. Timers are put off far more often than they fire, so a wish put off leaves its entry in
/// the heap alone, which is moved when its turn comes: the heap holds about one entry for each sleeper.
#[derive(Debug)]
pub(super) struct Agenda {
    epoch: Instant,
    heap: BinaryHeap<Reverse<Entry>>,
    links: Vec<Wish>,
    hosts: Vec<Wish>,
}

/// Compared for every packet on every link, so it is small: nanoseconds since the epoch, then the sleeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: u64,
    sleeper: u32,
}

#[derive(Debug, Clone, Copy)]
struct Wish {
    /// When the sleeper wants to be woken.
    at: u64,
    /// Its earliest entry in the heap: at `at` or before.
    queued: u64,
}

/// No time at all, 584 years after the epoch.
const NEVER: u64 = u64::MAX;

impl Default for Wish {
    fn default() -> Self {
        Self { at: NEVER, queued: NEVER }
    }
}

impl Sleeper {
    /// Set in the number of a host.
    const HOST: u32 = 1 << 31;

    fn number(self) -> u32 {
        match self {
            Self::Link(index) => index,
            Self::Host(index) => index | Self::HOST,
        }
    }

    fn of(number: u32) -> Self {
        if number & Self::HOST == 0 { Self::Link(number) } else { Self::Host(number & !Self::HOST) }
    }
}

impl Agenda {
    /// Nobody sleeps; no instant is before `epoch`.
    pub(super) fn new(epoch: Instant) -> Self {
        Self { epoch, heap: BinaryHeap::new(), links: Vec::new(), hosts: Vec::new() }
    }

    /// From now on there are this many sleepers.
    ///
    /// # Panics
    /// With 2^31 of a kind.
    pub(super) fn make_room(&mut self, links: usize, hosts: usize) {
        assert!(links.max(hosts) < Sleeper::HOST as usize, "too many sleepers");
        self.links.resize(links, Wish::default());
        self.hosts.resize(hosts, Wish::default());
    }

    /// From now on `sleeper` wants to be woken at `at` and at no other time.
    pub(super) fn set(&mut self, sleeper: Sleeper, at: Option<Instant>) {
        let at = at.map_or(NEVER, |at| at.saturating_duration_since(self.epoch).as_nanos() as u64);
        let wish = self.wish(sleeper);
        wish.at = at;
        if at < wish.queued {
            wish.queued = at;
            self.heap.push(Reverse(Entry { at, sleeper: sleeper.number() }));
        }
    }

    /// The first instant at which anybody is to be woken.
    pub(super) fn next(&mut self) -> Option<Instant> {
        let entry = self.first()?;
        Some(self.epoch + Duration::from_nanos(entry.at))
    }

    /// Somebody who is to be woken by `now`; the wish is fulfilled with that.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Sleeper> {
        let entry = self.first().filter(|entry| self.epoch + Duration::from_nanos(entry.at) <= now)?;
        let sleeper = Sleeper::of(entry.sleeper);
        // The entry stays for the next wish, which most often is made at once.
        self.wish(sleeper).at = NEVER;
        Some(sleeper)
    }

    /// The first entry that somebody waits for; those before are moved to where their sleepers wait, or go.
    fn first(&mut self) -> Option<Entry> {
        loop {
            let mut top = self.heap.peek_mut()?;
            let Reverse(entry) = *top;
            let wish = match Sleeper::of(entry.sleeper) {
                Sleeper::Link(index) => &mut self.links[index as usize],
                Sleeper::Host(index) => &mut self.hosts[index as usize],
            };
            if wish.queued == entry.at {
                if wish.at == entry.at {
                    return Some(entry);
                }
                wish.queued = wish.at;
                if wish.at != NEVER {
                    top.0.at = wish.at;
                    continue;
                }
            }
            PeekMut::pop(top);
        }
    }

    fn wish(&mut self, sleeper: Sleeper) -> &mut Wish {
        match sleeper {
            Sleeper::Link(index) => &mut self.links[index as usize],
            Sleeper::Host(index) => &mut self.hosts[index as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_the_last_wish_counts_and_ties_go_by_name() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut agenda = Agenda::new(start);
        agenda.make_room(2, 2);
        agenda.set(Sleeper::Host(1), Some(at(5)));
        agenda.set(Sleeper::Link(1), Some(at(5)));
        agenda.set(Sleeper::Link(0), Some(at(1)));
        agenda.set(Sleeper::Link(0), Some(at(7)));
        agenda.set(Sleeper::Host(0), Some(at(2)));
        agenda.set(Sleeper::Host(0), None);
        agenda.set(Sleeper::Link(1), Some(at(5)));
        assert_eq!(agenda.next(), Some(at(5)));
        assert_eq!(agenda.pop(at(4)), None);
        let woken: Vec<_> = std::iter::from_fn(|| agenda.pop(at(9))).collect();
        assert_eq!(woken, [Sleeper::Link(1), Sleeper::Host(1), Sleeper::Link(0)]);
        assert_eq!(agenda.next(), None);
    }

    #[test]
    fn a_wish_made_twice_is_fulfilled_once() {
        let at = Instant::now();
        let mut agenda = Agenda::new(at);
        agenda.make_room(1, 0);
        agenda.set(Sleeper::Link(0), Some(at));
        agenda.set(Sleeper::Link(0), Some(at + Duration::from_secs(1)));
        agenda.set(Sleeper::Link(0), Some(at));
        assert_eq!(agenda.pop(at), Some(Sleeper::Link(0)));
        assert_eq!(agenda.pop(at + Duration::from_secs(2)), None);
    }
}
