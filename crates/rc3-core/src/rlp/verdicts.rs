//! Which paths honour priorities, as an endpoint remembers it for later connections.

use std::{net::IpAddr, time::Instant};

use super::guard::{Record, Verdict};
use crate::memory::{Aged, Memory};

/// A verdict on the path to one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinationVerdict {
    /// The destination; all of its ports share a path.
    pub destination: IpAddr,
    /// Whether the path honours priorities.
    pub verdict: Verdict,
    /// When there was evidence last.
    pub at: Instant,
    /// When it is forgotten.
    pub until: Instant,
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
            at: record.at,
            until: record.until,
        })
    }
}
