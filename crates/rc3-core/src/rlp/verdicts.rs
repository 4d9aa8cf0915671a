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
            DestinationVerdict { destination, verdict: record.verdict(), at: record.at, until: record.until }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use super::*;
    use crate::{
        primary::{Dir, Side, StreamId},
        rlp::guard::Guard,
        units::Span,
    };

    /// A record as a guard makes it: RLP that waited was overtaken.
    fn record(now: Instant) -> Record {
        let (rtt, stream) = (Duration::from_millis(40), StreamId::new(Side::Client, Dir::Uni, 0));
        let mut guard = Guard::new(Duration::from_secs(60), rtt);
        guard.on_rlp_sent(now, stream, 0, 1200, 0);
        guard.on_sacked(now, stream, Span::new(0, 1));
        guard.on_rlp_sent(now, stream, 1200, 1200, 0);
        guard.on_sacked(now + 2 * rtt, stream, Span::new(1200, 1201));
        guard.on_primary_acked(now + 2 * rtt, now + Duration::from_millis(1), Duration::ZERO);
        guard.take_record().expect("evidence")
    }

    fn remote(host: u32, port: u16) -> SocketAddr {
        (Ipv4Addr::from(host), port).into()
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_gives_way() {
        let now = Instant::now();
        let mut verdicts = Verdicts::default();
        for host in 0..=DESTINATIONS_MAX as u32 {
            verdicts.remember(remote(host, 1), record(now + Duration::from_millis(host.into())));
        }
        assert_eq!(verdicts.iter(now).count(), DESTINATIONS_MAX);
        assert!(verdicts.recall(now, remote(0, 1)).is_none());
        assert!(verdicts.recall(now, remote(1, 1)).is_some());
    }

    #[test]
    fn ports_and_spellings_of_an_address_share_a_record_until_it_is_too_old() {
        let now = Instant::now();
        let mut verdicts = Verdicts::default();
        let record = record(now);
        verdicts.remember("[::ffff:192.0.2.1]:5".parse().unwrap(), record);
        let other = "192.0.2.1:6".parse().unwrap();
        assert_eq!(verdicts.recall(now, other), Some(record));
        assert_eq!(verdicts.recall(record.until, other), None);
        assert_eq!(verdicts.iter(now).count(), 0, "forgotten");
    }
}
