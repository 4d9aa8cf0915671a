//! Monitor intervals: which packets left at which rate, and what became of them.
//!
//! Invariant: intervals lie one after the other without gaps, the last is under way, and each packet counts in the one
//! in which it was sent.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{law::Trial, utility};

/// An interval may go on for ever where no packet is sent; results are wanted of few.
const INTERVALS_MAX: usize = 64;

/// The intervals of one sender that have not been judged.
#[derive(Debug, Clone, Default)]
pub struct Monitor {
    intervals: VecDeque<Interval>,
    /// When the newest packet that has arrived was sent.
    newest: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Interval {
    trial: Trial,
    since: Instant,
    until: Instant,
    acked: u64,
    lost: u64,
}

impl Monitor {
    /// The interval under way ends when [`Self::is_over`] says so, and this one begins then.
    pub fn begin(&mut self, now: Instant, trial: Trial, length: Duration) {
        if let Some(last) = self.intervals.back_mut() {
            last.until = now;
        }
        if self.intervals.len() == INTERVALS_MAX {
            self.intervals.pop_front();
        }
        let until = now + length;
        self.intervals.push_back(Interval { trial, since: now, until, acked: 0, lost: 0 });
    }

    /// Whether another interval is to begin.
    pub fn is_over(&self, now: Instant) -> bool {
        self.intervals.back().is_none_or(|interval| now >= interval.until)
    }

    /// The trial under way.
    pub fn trial(&self) -> Option<Trial> {
        self.intervals.back().map(|interval| interval.trial)
    }

    /// `bytes` sent at `sent` have arrived.
    pub fn on_ack(&mut self, sent: Instant, bytes: u64) {
        self.newest = self.newest.max(Some(sent));
        if let Some(interval) = self.find(sent) {
            interval.acked += bytes;
        }
    }

    /// `bytes` are lost, the last of which was sent at `sent`.
    pub fn on_loss(&mut self, sent: Instant, bytes: u64) {
        if let Some(interval) = self.find(sent) {
            interval.lost += bytes;
        }
    }

    /// The next trial whose packets have all arrived or not, and its utility: of the interval's mean rate, which is that
    /// of the trial only where there was enough to send. `late`: how much later than others a packet may arrive.
    pub fn poll_result(&mut self, late: Duration) -> Option<(Trial, Option<f64>)> {
        let first = self.intervals.front().filter(|_| self.intervals.len() > 1)?;
        if self.newest? <= first.until + late {
            return None;
        }
        let Interval { trial, since, until, acked, lost } = self.intervals.pop_front()?;
        let (bytes, seconds) = ((acked + lost) as f64, (until - since).as_secs_f64());
        let judged = bytes > 0.0 && seconds > 0.0;
        Some((trial, judged.then(|| utility(bytes / seconds, lost as f64 / bytes))))
    }

    /// The interval in which something was sent.
    fn find(&mut self, sent: Instant) -> Option<&mut Interval> {
        self.intervals.iter_mut().rev().find(|interval| interval.since <= sent)
    }
}
