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
/// Each sleeper has one wish. A wish that is put off stays in the heap until its turn and is dropped then, which is
/// cheaper than finding it.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, Sleeper)>>,
    links: Vec<Option<Instant>>,
    hosts: Vec<Option<Instant>>,
}

impl Agenda {
    /// From now on there are this many sleepers.
    pub(super) fn make_room(&mut self, links: usize, hosts: usize) {
        self.links.resize(links, None);
        self.hosts.resize(hosts, None);
    }

    /// From now on `sleeper` wants to be woken at `at` and at no other time.
    pub(super) fn set(&mut self, sleeper: Sleeper, at: Option<Instant>) {
        let wish = self.wish(sleeper);
        if *wish == at {
            return;
        }
        *wish = at;
        if let Some(at) = at {
            self.heap.push(Reverse((at, sleeper)));
        }
    }

    /// The first instant at which anybody is to be woken.
    pub(super) fn next(&mut self) -> Option<Instant> {
        loop {
            let &Reverse((at, sleeper)) = self.heap.peek()?;
            if *self.wish(sleeper) == Some(at) {
                return Some(at);
            }
            self.heap.pop();
        }
    }

    /// Somebody who is to be woken by `now`; the wish is fulfilled with that.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Sleeper> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, sleeper)) = self.heap.pop()?;
        *self.wish(sleeper) = None;
        Some(sleeper)
    }

    fn wish(&mut self, sleeper: Sleeper) -> &mut Option<Instant> {
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
