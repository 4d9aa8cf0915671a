//! What an endpoint remembers of the paths to its destinations, for later connections.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use super::guard::{self, Verdict};
use crate::{
    memory::{Aged, Memory},
    units::Rate,
};

/// What is known about the path to one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinationVerdict {
    /// The destination; all of its ports share a path.
    pub destination: IpAddr,
    /// Whether the path honours priorities.
    pub verdict: Verdict,
    /// At which rate data arrived there, and the round trip.
    pub pace: Option<Pace>,
    /// When there was evidence last.
    pub at: Instant,
    /// When it is forgotten.
    pub until: Instant,
}

/// The rate of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Of UDP payload.
    pub rate: Rate,
    /// The least round trip.
    pub rtt_min: Duration,
}

/// What one connection leaves to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Of the [`guard::Guard`].
    pub(crate) score: i32,
    /// Of the [`super::clock::Clock`].
    pub(crate) pace: Option<Pace>,
    /// When there was evidence last.
    pub at: Instant,
    /// When it is too old.
    pub until: Instant,
}

impl Record {
    /// What it says.
    pub fn verdict(&self) -> Verdict {
        guard::verdict(self.score)
    }
}

/// The memory.
pub(crate) type Verdicts = Memory<Record>;

impl Aged for Record {
    fn at(&self) -> Instant {
        self.at
    }

    fn until(&self) -> Instant {
        self.until
    }
}

impl Verdicts {
    /// All that is believed at `now`, in no order.
    pub(crate) fn verdicts(&self, now: Instant) -> impl Iterator<Item = DestinationVerdict> {
        self.iter(now).map(|(destination, record)| DestinationVerdict {
            destination,
            verdict: record.verdict(),
            pace: record.pace,
            at: record.at,
            until: record.until,
        })
    }
}
