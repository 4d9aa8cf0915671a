//! What an endpoint remembers about its destinations: which paths honour priorities, and for how long that is
//! believed. One record per address, a bounded number of them; a record too old is forgotten.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use super::guard::{Record, Verdict};

/// Destinations remembered. The one with the oldest evidence gives way.
pub const DESTINATIONS_MAX: usize = 1024;

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
#[derive(Debug, Default)]
pub struct Verdicts {
    /// Hashed with a key: peers may choose their addresses.
    records: HashMap<IpAddr, Record>,
}

impl Verdicts {
    /// What was learned about the path to `remote`, if that is not too old.
    pub fn recall(&mut self, now: Instant, remote: SocketAddr) -> Option<Record> {
        let destination = remote.ip().to_canonical();
        let record = self.records.get(&destination).copied()?;
        if record.until <= now {
            self.records.remove(&destination);
            return None;
        }
        Some(record)
    }

    /// Takes note of what was learned about the path to `remote`.
    pub fn remember(&mut self, remote: SocketAddr, record: Record) {
        let destination = remote.ip().to_canonical();
        if self.records.len() >= DESTINATIONS_MAX && !self.records.contains_key(&destination) {
            let oldest = self.records.iter().min_by_key(|(_, record)| record.at).map(|(&ip, _)| ip);
            oldest.map(|ip| self.records.remove(&ip));
        }
        self.records.insert(destination, record);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.records.clear();
    }

    /// All that is believed at `now`, in no order.
    pub fn iter(&self, now: Instant) -> impl Iterator<Item = DestinationVerdict> {
        self.records.iter().filter(move |(_, record)| now < record.until).map(|(&destination, record)| {
            DestinationVerdict {
                destination,
                verdict: record.verdict(),
                at: record.at,
                until: record.until,
            }
        })
    }
}
