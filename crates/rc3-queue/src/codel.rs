//! CoDel (RFC 8289 §5): decides when to drop or mark packets because of persistent queueing delay.
//!
//! Only the control law; the queue holds the packets.

use std::time::{Duration, Instant};

/// What to do with the packet at the head of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodelVerdict {
    /// Send it.
    Send,
    /// Mark and send it; or drop it, and ask about the next one.
    Signal,
}

/// Parameters of CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDel {
    /// Acceptable standing delay: 5 ms.
    pub target: Duration,
    /// How long the delay may exceed it, about the longest round trip of the traffic: 100 ms.
    pub interval: Duration,
}

impl Default for CoDel {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100) }
    }
}

impl CoDel {
    /// When to drop next, `count` after the first drop (RFC 8289 §5.5, `control_law`).
    fn next(&self, after: Instant, count: u32) -> Instant {
        after + self.interval.div_f64(f64::from(count.max(1)).sqrt())
    }
}

/// CoDel's state for one queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CodelState {
    /// When the delay will have exceeded the target for an interval; `None` while it does not.
    above_until: Option<Instant>,
    dropping: Option<Dropping>,
    /// The last dropping period, whose pace the next one may resume.
    before: Option<Dropping>,
}

/// A dropping period.
#[derive(Debug, Clone, Copy)]
struct Dropping {
    next: Instant,
    /// Packets dropped in it, or the count it started with.
    count: u32,
    /// `count` at its start.
    first: u32,
}

impl CodelState {
    /// Decides on the packet at the head, which has waited for `sojourn`; `short` if at most one full-size packet is
    /// behind it.
    pub(crate) fn decide_on_head(
        &mut self,
        codel: &CoDel,
        now: Instant,
        sojourn: Duration,
        short: bool,
    ) -> CodelVerdict {
        if !self.note_sojourn(codel, now, sojourn, short) {
            self.end();
            return CodelVerdict::Send;
        }
        match &mut self.dropping {
            Some(dropping) if now < dropping.next => CodelVerdict::Send,
            Some(dropping) => {
                dropping.count = dropping.count.saturating_add(1);
                dropping.next = codel.next(dropping.next, dropping.count);
                CodelVerdict::Signal
            }
            None => {
                let count = self.pace(codel, now);
                self.dropping = Some(Dropping { next: codel.next(now, count), count, first: count });
                CodelVerdict::Signal
            }
        }
    }

    /// The queue is empty.
    pub(crate) fn on_empty(&mut self) {
        self.above_until = None;
        self.end();
    }

    /// A packet has waited for `sojourn`. Returns whether all have waited too long for an interval.
    fn note_sojourn(&mut self, codel: &CoDel, now: Instant, sojourn: Duration, short: bool) -> bool {
        if sojourn < codel.target || short {
            self.above_until = None;
            return false;
        }
        now >= *self.above_until.get_or_insert(now + codel.interval)
    }

    /// The initial count: that of the last period if it ended recently (RFC 8289 §5.4).
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
