//! Which link or host is woken next.

use std::time::{Duration, Instant};

use rc3_core::internals::Tournament;

/// A link or host that has a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleeper {
    /// A link, when a packet arrives at its end.
    Link(u32),
    /// A host, at its agent's timeout or when its uplink has room.
    Host(u32),
}

/// The timeouts of all sleepers, earliest first. At equal instants links come before hosts, each in the order of their
/// numbers, so that the order in which timeouts were set makes no difference.
#[derive(Debug)]
pub(super) struct EventQueue {
    epoch: Instant,
    links: Tournament<u64>,
    hosts: Tournament<u64>,
}

impl EventQueue {
    /// Without timeouts; no instant is before `epoch`.
    pub(super) fn new(epoch: Instant) -> Self {
        Self { epoch, links: Tournament::new(NEVER), hosts: Tournament::new(NEVER) }
    }

    /// From now on there are this many sleepers.
    pub(super) fn make_room(&mut self, links: usize, hosts: usize) {
        self.links.make_room(links);
        self.hosts.make_room(hosts);
    }

    /// Sets the only timeout of `sleeper`.
    pub(super) fn set(&mut self, sleeper: Sleeper, at: Option<Instant>) {
        let at = at.map_or(NEVER, |at| self.count(at));
        match sleeper {
            Sleeper::Link(index) => self.links.set(index as usize, at),
            Sleeper::Host(index) => self.hosts.set(index as usize, at),
        }
    }

    /// The earliest timeout.
    pub(super) fn next(&self) -> Option<Instant> {
        let at = self.links.first().min(self.hosts.first());
        (at != NEVER).then(|| self.epoch + Duration::from_nanos(at))
    }

    /// The sleeper whose timeout is the earliest, if it has come by `now`. The caller sets its next one, or none, before it
    /// asks again: most have one, and setting each timeout once is cheaper than clearing it first.
    pub(super) fn due(&self, now: Instant) -> Option<Sleeper> {
        let (links, hosts) = (self.links.first(), self.hosts.first());
        let at = links.min(hosts);
        (at != NEVER && at <= self.count(now)).then(|| {
            if links <= hosts {
                Sleeper::Link(self.links.winner() as u32)
            } else {
                Sleeper::Host(self.hosts.winner() as u32)
            }
        })
    }

    fn count(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_nanos() as u64
    }
}

/// No timeout: 584 years after the epoch.
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn pop(event_queue: &mut EventQueue, now: Instant) -> Option<Sleeper> {
        let sleeper = event_queue.due(now)?;
        event_queue.set(sleeper, None);
        Some(sleeper)
    }

    #[test]
    fn only_the_last_timeout_counts_and_ties_go_by_number() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut event_queue = EventQueue::new(start);
        event_queue.make_room(2, 2);
        event_queue.set(Sleeper::Host(1), Some(at(5)));
        event_queue.set(Sleeper::Link(1), Some(at(5)));
        event_queue.set(Sleeper::Link(0), Some(at(1)));
        event_queue.set(Sleeper::Link(0), Some(at(7)));
        event_queue.set(Sleeper::Host(0), Some(at(2)));
        event_queue.set(Sleeper::Host(0), None);
        event_queue.set(Sleeper::Link(1), Some(at(5)));
        assert_eq!(event_queue.next(), Some(at(5)));
        assert_eq!(pop(&mut event_queue, at(4)), None);
        let woken: Vec<_> = std::iter::from_fn(|| pop(&mut event_queue, at(9))).collect();
        assert_eq!(woken, [Sleeper::Link(1), Sleeper::Host(1), Sleeper::Link(0)]);
        assert_eq!(event_queue.next(), None);
    }

    #[test]
    fn a_timeout_set_twice_fires_once() {
        let at = Instant::now();
        let mut event_queue = EventQueue::new(at);
        event_queue.make_room(1, 0);
        event_queue.set(Sleeper::Link(0), Some(at));
        event_queue.set(Sleeper::Link(0), Some(at + Duration::from_secs(1)));
        event_queue.set(Sleeper::Link(0), Some(at));
        assert_eq!(pop(&mut event_queue, at), Some(Sleeper::Link(0)));
        assert_eq!(pop(&mut event_queue, at + Duration::from_secs(2)), None);
    }
}
