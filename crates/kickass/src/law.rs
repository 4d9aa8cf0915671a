//! What a router asks of a rate law: samples in, the rate of each flow out.

use std::time::{Duration, Instant};

use crate::{rate::Rate, rcp};

/// A law by which a router finds the rate it signals. Time never runs backwards between calls.
pub trait RateLaw {
    /// Does what was due by `now`. The queue has held `queue_bytes` since the last call, which comes before each
    /// change of it.
    fn advance(&mut self, now: Instant, queue_bytes: u64);

    /// A packet of `bytes` has come, kept or dropped. `rtt` is the round trip that it told, if it did.
    fn on_arrival(&mut self, bytes: u64, rtt: Option<Duration>);

    /// What each flow may send; `None` if the law has nothing to say.
    fn rate(&self) -> Option<Rate>;

    /// The mean round trip of senders; `None` if the law does not know one.
    fn rtt(&self) -> Option<Duration> {
        None
    }

    /// Whether the router tells nobody the rate from `now` on, because too much waits. What comes a round trip later is
    /// then no answer to it. Called before [`Self::advance`]; a law need not care.
    fn set_silent(&mut self, _now: Instant, _silent: bool) {}
}

impl RateLaw for rcp::Law {
    fn advance(&mut self, now: Instant, queue_bytes: u64) {
        self.advance(now, queue_bytes);
    }

    fn on_arrival(&mut self, bytes: u64, rtt: Option<Duration>) {
        self.on_arrival(bytes, rtt.unwrap_or_default());
    }

    fn rate(&self) -> Option<Rate> {
        Rate::from_bytes_per_second(self.rate())
    }

    fn rtt(&self) -> Option<Duration> {
        Some(self.rtt())
    }

    fn set_silent(&mut self, now: Instant, silent: bool) {
        self.set_silent(now, silent);
    }
}

/// A rate set by hand: for links whose flows are known, and for tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fixed(pub Rate);

impl RateLaw for Fixed {
    fn advance(&mut self, _now: Instant, _queue_bytes: u64) {}

    fn on_arrival(&mut self, _bytes: u64, _rtt: Option<Duration>) {}

    fn rate(&self) -> Option<Rate> {
        Some(self.0)
    }
}

/// No law: a router that signals nothing.
impl RateLaw for () {
    fn advance(&mut self, _now: Instant, _queue_bytes: u64) {}

    fn on_arrival(&mut self, _bytes: u64, _rtt: Option<Duration>) {}

    fn rate(&self) -> Option<Rate> {
        None
    }
}

impl<L: RateLaw + ?Sized> RateLaw for Box<L> {
    fn advance(&mut self, now: Instant, queue_bytes: u64) {
        (**self).advance(now, queue_bytes);
    }

    fn on_arrival(&mut self, bytes: u64, rtt: Option<Duration>) {
        (**self).on_arrival(bytes, rtt);
    }

    fn rate(&self) -> Option<Rate> {
        (**self).rate()
    }

    fn rtt(&self) -> Option<Duration> {
        (**self).rtt()
    }

    fn set_silent(&mut self, now: Instant, silent: bool) {
        (**self).set_silent(now, silent);
    }
}
