//! Who is to be woken next.

use std::{cmp::Reverse, collections::BinaryHeap, time::Instant};

/// Something in the world that asks to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sleeper {
    /// A link, when a packet arrives at its end.
    Link(u32),
    /// A host, at its agent's timeout or when its uplink has room.
    Host(u32),
}

/// The wishes of all sleepers, earliest first; equal instants in the order of [`Sleeper`], so that nothing hangs on
/// the order in which they were made known.
///
/// Each sleeper has one wish. Timers are put off far more often than they fire, so a wish put off leaves its entry in
/// the heap alone, which is made again when its turn comes: the heap holds about one entry for each sleeper.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, Sleeper)>>,
    links: Vec<Wish>,
    hosts: Vec<Wish>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Wish {
    /// When the sleeper wants to be woken.
    at: Option<Instant>,
    /// Its earliest entry in the heap: at `at` or before.
    queued: Option<Instant>,
}

impl Agenda {
    /// From now on there are this many sleepers.
    pub(super) fn make_room(&mut self, links: usize, hosts: usize) {
        self.links.resize(links, Wish::default());
        self.hosts.resize(hosts, Wish::default());
    }

    /// From now on `sleeper` wants to be woken at `at` and at no other time.
    pub(super) fn set(&mut self, sleeper: Sleeper, at: Option<Instant>) {
        let wish = self.wish(sleeper);
        wish.at = at;
        if let Some(at) = at
            && wish.queued.is_none_or(|queued| at < queued)
        {
            wish.queued = Some(at);
            self.heap.push(Reverse((at, sleeper)));
        }
    }

    /// The first instant at which anybody is to be woken.
    pub(super) fn next(&mut self) -> Option<Instant> {
        loop {
            let &Reverse((at, sleeper)) = self.heap.peek()?;
            let wish = self.wish(sleeper);
            if wish.queued != Some(at) {
                self.heap.pop();
                continue;
            }
            match wish.at {
                Some(wanted) if wanted == at => return Some(at),
                wanted => {
                    wish.queued = wanted;
                    self.heap.pop();
                    self.heap.extend(wanted.map(|at| Reverse((at, sleeper))));
                }
            }
        }
    }

    /// Somebody who is to be woken by `now`; the wish is fulfilled with that.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Sleeper> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, sleeper)) = self.heap.pop()?;
        *self.wish(sleeper) = Wish::default();
        Some(sleeper)
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
        let mut agenda = Agenda::default();
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
        let mut agenda = Agenda::default();
        agenda.make_room(1, 0);
        agenda.set(Sleeper::Link(0), Some(at));
        agenda.set(Sleeper::Link(0), Some(at + Duration::from_secs(1)));
        agenda.set(Sleeper::Link(0), Some(at));
        assert_eq!(agenda.pop(at), Some(Sleeper::Link(0)));
        assert_eq!(agenda.pop(at + Duration::from_secs(2)), None);
    }
}
