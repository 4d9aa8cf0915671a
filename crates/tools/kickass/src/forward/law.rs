//! The rate law of a port, as configured.

use std::time::{Duration, Instant};

use kickass::{
    Rate,
    law::{Fixed, RateLaw},
    rcp,
};

use super::config::{PortConfig, SignalConfig};

/// Length of the first interval of a port's law. It differs per port, so that not all laws update at once.
const FIRST_INTERVALS: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(7),
    Duration::from_millis(4),
    Duration::from_millis(13),
];

/// One of the laws.
#[derive(Debug)]
pub(crate) enum PortLaw {
    Rcp { config: rcp::RcpConfig, law: Box<rcp::Law> },
    Fixed(Fixed),
    None,
}

impl PortLaw {
    pub(crate) fn new(port: &PortConfig, number: usize, now: Instant) -> Self {
        match port.kickass.as_ref().filter(|signals| signals.on) {
            None => Self::None,
            Some(SignalConfig { fixed: Some(rate), .. }) => Self::Fixed(Fixed(*rate)),
            Some(signals) => {
                let first = FIRST_INTERVALS[number % FIRST_INTERVALS.len()];
                let law = rcp::Law::new(signals.rcp(), port.rate.bytes_per_second(), now, first);
                Self::Rcp { config: signals.rcp(), law: Box::new(law) }
            }
        }
    }

    /// The law for a changed port: the same one if only the capacity changed.
    pub(crate) fn change(&mut self, port: &PortConfig, number: usize, now: Instant) {
        let new = Self::new(port, number, now);
        match (self, new) {
            (Self::Rcp { config, law }, Self::Rcp { config: new, .. }) if *config == new => {
                law.set_capacity(port.rate.bytes_per_second());
            }
            (old, new) => *old = new,
        }
    }
}

impl RateLaw for PortLaw {
    fn advance(&mut self, now: Instant, queue_bytes: u64) {
        if let Self::Rcp { law, .. } = self {
            law.advance(now, queue_bytes);
        }
    }

    fn on_arrival(&mut self, bytes: u64, rtt: Option<Duration>) {
        if let Self::Rcp { law, .. } = self {
            RateLaw::on_arrival(&mut **law, bytes, rtt);
        }
    }

    fn rate(&self) -> Option<Rate> {
        match self {
            Self::Rcp { law, .. } => RateLaw::rate(&**law),
            Self::Fixed(fixed) => fixed.rate(),
            Self::None => None,
        }
    }

    fn set_silent(&mut self, now: Instant, silent: bool) {
        if let Self::Rcp { law, .. } = self {
            law.set_silent(now, silent);
        }
    }
}
