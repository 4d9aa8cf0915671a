//! Monitor intervals: which packets left at which rate, and how many arrived.
//!
//! Invariant: intervals lie one after the other, the last is under way, and each packet counts in the one in which it was
//! sent, if in any.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{law::RateTrial, utility};

/// Results are awaited of so many. An interval takes longer than a round trip, so there are more only in an outage.
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
    trial: RateTrial,
    since: Instant,
    until: Instant,
    acked: u64,
    lost: u64,
    /// There was nothing to send, so its utility is unknown.
    void: bool,
}

impl Monitor {
    /// The interval under way ends now, and this one begins. A void one is forgotten.
    pub fn begin(&mut self, now: Instant, trial: RateTrial, length: Duration) {
        if self.is_void() {
            self.intervals.pop_back();
        } else if let Some(last) = self.intervals.back_mut() {
            last.until = now;
        }
        if self.intervals.len() == INTERVALS_MAX {
            self.intervals.pop_front();
        }
        let until = now + length;
        let fresh = Interval { trial, since: now, until, acked: 0, lost: 0, void: false };
        self.intervals.push_back(fresh);
    }

    /// Whether the time of the interval under way is over.
    pub fn is_over(&self, now: Instant) -> bool {
        self.intervals.back().is_none_or(|interval| now >= interval.until)
    }

    /// Whether it should begin anew.
    pub fn is_void(&self) -> bool {
        self.intervals.back().is_some_and(|interval| interval.void)
    }

    /// The trial under way.
    pub fn trial(&self) -> Option<RateTrial> {
        self.intervals.back().map(|interval| interval.trial)
    }

    /// The fastest rate of packets that may be in flight, in bytes per second.
    pub fn fastest(&self) -> Option<f64> {
        self.intervals.iter().map(|interval| interval.trial.rate).reduce(f64::max)
    }

    /// `bytes` sent at `sent` have arrived.
    pub fn on_ack(&mut self, sent: Instant, bytes: u64) {
        self.newest = self.newest.max(Some(sent));
        if let Some(interval) = self.find(sent) {
            interval.acked += bytes;
        }
    }

    /// `bytes` are lost, the last of which were sent at `sent`.
    pub fn on_loss(&mut self, sent: Instant, bytes: u64) {
        if let Some(interval) = self.find(sent) {
            interval.lost += bytes;
        }
    }

    /// There is nothing to send: the interval under way is void.
    pub fn on_app_limited(&mut self) {
        if let Some(interval) = self.intervals.back_mut() {
            interval.void = true;
        }
    }

    /// The next trial whose packets all arrived or are lost, with its utility; `None` if that cannot be judged.
    /// `late`: how much later than others a packet may arrive. `packet`: bytes of a full one.
    ///
    /// The rate is that of the trial, or what was really sent where that is slower by more than a packet: timers and
    /// processors may not keep up.
    pub fn poll_result(&mut self, late: Duration, packet: u64) -> Option<(RateTrial, Option<f64>)> {
        let first = self.intervals.front().filter(|_| self.intervals.len() > 1)?;
        if self.newest? <= first.until + late {
            return None;
        }
        let Interval { trial, since, until, acked, lost, .. } = self.intervals.pop_front()?;
        let sent = acked + lost;
        let seconds = (until - since).as_secs_f64();
        let judged = sent > 0 && seconds > 0.0;
        let utility = judged.then(|| {
            let rate = trial.rate.min((sent + packet) as f64 / seconds);
            utility(rate, lost as f64 / sent as f64)
        });
        Some((trial, utility))
    }

    /// The interval in which something was sent.
    fn find(&mut self, sent: Instant) -> Option<&mut Interval> {
        let newest = self.intervals.iter_mut().rev().find(|interval| interval.since <= sent)?;
        (sent < newest.until).then_some(newest)
    }
}
