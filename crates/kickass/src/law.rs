//! The interface of rate laws: arrivals and queue go in, the rate of each flow comes out.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use auto_impl::auto_impl;
use rc3_units::Rate;

/// A law by which a router finds the rate it signals. Time never runs backwards between calls.
#[auto_impl(Box)]
pub trait RateLaw: Debug {
    /// Makes the updates due by `now`. The queue held `queue_bytes` since the last call: call this before each change
    /// of the queue.
    fn advance(&mut self, now: Instant, queue_bytes: u64);

    /// A packet of `bytes` arrived, kept or dropped. `rtt` is the round trip that it indicates, if any.
    fn on_arrival(&mut self, bytes: u64, rtt: Option<Duration>);

    /// What each flow may send; `None` if there is no rate to signal.
    fn rate(&self) -> Option<Rate>;

    /// The mean round trip of senders; `None` if the law does not know one.
    fn rtt(&self) -> Option<Duration> {
        None
    }

    /// Sets whether the router withholds the rate from `now` on because the queue is too long. Traffic that arrives a
    /// round trip later is then no response to the rate. Called before [`Self::advance`]; a law may ignore it.
    fn set_silent(&mut self, _now: Instant, _silent: bool) {}

    /// The link carries `capacity` bytes per second from now on. A law may ignore it.
    fn set_capacity(&mut self, _capacity: f64) {}
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
