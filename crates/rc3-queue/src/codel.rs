//! CoDel (RFC 8289 §5): when packets that have waited too long for too long are to be dropped or marked.
//!
//! The law only; which packets wait is the business of a queue.

use std::time::{Duration, Instant};

/// What to do with the packet at the head of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send it.
    Send,
    /// Mark it, and send it; or drop it, and ask about the next one.
    Signal,
}

/// How long packets may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDel {
    /// How long packets may wait all the time: 5 ms.
    pub target: Duration,
    /// How long they may wait longer, about the longest round trip of the traffic: 100 ms.
    pub interval: Duration,
}

impl Default for CoDel {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100) }
    }
}

impl CoDel {
    /// When the next packet is to go, `count` after the first (RFC 8289 §5.5, `control_law`).
    fn next(&self, after: Instant, count: u32) -> Instant {
        after + self.interval.div_f64(f64::from(count.max(1)).sqrt())
    }
}

/// What CoDel remembers of one queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct State {
    /// When packets will have waited too long for an interval; `None` while they do not.
    above_until: Option<Instant>,
    dropping: Option<Dropping>,
    /// The last time of dropping, for taking up its pace again.
    before: Option<Dropping>,
}

/// A time in which packets are dropped.
#[derive(Debug, Clone, Copy)]
struct Dropping {
    next: Instant,
    /// Packets dropped in it, or the pace it began with.
    count: u32,
    /// `count` when it began.
    first: u32,
}

impl State {
    /// Decides on the packet at the head, which has waited for `sojourn`; `short` if no more than one packet of
    /// full size is behind it.
    pub(crate) fn judge(&mut self, codel: &CoDel, now: Instant, sojourn: Duration, short: bool) -> Verdict {
        if !self.is_above(codel, now, sojourn, short) {
            self.end();
            return Verdict::Send;
        }
        match &mut self.dropping {
            Some(dropping) if now < dropping.next => Verdict::Send,
            Some(dropping) => {
                dropping.count = dropping.count.saturating_add(1);
                dropping.next = codel.next(dropping.next, dropping.count);
                Verdict::Signal
            }
            None => {
                let count = self.pace(codel, now);
                self.dropping = Some(Dropping { next: codel.next(now, count), count, first: count });
                Verdict::Signal
            }
        }
    }

    /// Nothing waits any more.
    pub(crate) fn on_empty(&mut self) {
        self.above_until = None;
        self.end();
    }

    fn is_above(&mut self, codel: &CoDel, now: Instant, sojourn: Duration, short: bool) -> bool {
        if sojourn < codel.target || short {
            self.above_until = None;
            return false;
        }
        now >= *self.above_until.get_or_insert(now + codel.interval)
    }

    /// The count to begin with: that of the last time, if it ended shortly before (RFC 8289 §5.4).
    fn pace(&self, codel: &CoDel, now: Instant) -> u32 {
        let Some(before) = self.before else { return 1 };
        let recent = now.saturating_duration_since(before.next) < 16 * codel.interval;
        let gained = before.count - before.first;
        if recent && gained > 1 { gained } else { 1 }
    }

    fn end(&mut self) {
        if let Some(dropping) = self.dropping.take() {
            self.before = Some(dropping);
        }
    }
}
