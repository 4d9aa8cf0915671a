//! An endpoint's memory of its destinations: one record per address, a bounded number of them; old records are dropped.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    time::Instant,
};

/// Destinations remembered. The one with the oldest evidence is replaced.
pub(crate) const DESTINATIONS_MAX: usize = 1024;

/// A record of a destination.
pub(crate) trait Aged: Copy {
    /// Time of the last evidence.
    fn at(&self) -> Instant;
    /// When it expires.
    fn until(&self) -> Instant;
}

/// Records by destination; all ports of an address share a path.
#[derive(Debug)]
pub(crate) struct DestinationCache<R> {
    /// Hashed with a key: peers may choose their addresses.
    records: HashMap<IpAddr, R>,
}

impl<R> Default for DestinationCache<R> {
    fn default() -> Self {
        Self { records: HashMap::new() }
    }
}

impl<R: Aged> DestinationCache<R> {
    /// The record of the path to `remote`, if still valid.
    pub(crate) fn recall(&mut self, now: Instant, remote: SocketAddr) -> Option<R> {
        let destination = remote.ip().to_canonical();
        let record = self.records.get(&destination).copied()?;
        if record.until() <= now {
            self.records.remove(&destination);
            return None;
        }
        Some(record)
    }

    /// Stores the record of the path to `remote`.
    pub(crate) fn remember(&mut self, remote: SocketAddr, record: R) {
        let destination = remote.ip().to_canonical();
        if self.records.len() >= DESTINATIONS_MAX && !self.records.contains_key(&destination) {
            let oldest = self.records.iter().min_by_key(|(_, record)| record.at()).map(|(&ip, _)| ip);
            oldest.map(|ip| self.records.remove(&ip));
        }
        self.records.insert(destination, record);
    }

    /// Drops the record of the path to `remote`.
    pub(crate) fn forget(&mut self, remote: SocketAddr) {
        self.records.remove(&remote.ip().to_canonical());
    }

    /// Drops all records.
    pub(crate) fn clear(&mut self) {
        self.records.clear();
    }

    /// All valid records at `now`, in no order.
    pub(crate) fn iter(&self, now: Instant) -> impl Iterator<Item = (IpAddr, R)> {
        let records = self.records.iter().map(|(&destination, &record)| (destination, record));
        records.filter(move |(_, record)| now < record.until())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Record(Instant);

    impl Aged for Record {
        fn at(&self) -> Instant {
            self.0
        }

        fn until(&self) -> Instant {
            self.0 + Duration::from_secs(60)
        }
    }

    fn remote(host: u32, port: u16) -> SocketAddr {
        (Ipv4Addr::from(host), port).into()
    }

    #[test]
    fn it_is_bounded_and_the_oldest_gives_way() {
        let now = Instant::now();
        let mut cache = DestinationCache::default();
        for host in 0..=DESTINATIONS_MAX as u32 {
            cache.remember(remote(host, 1), Record(now + Duration::from_millis(host.into())));
        }
        assert_eq!(cache.iter(now).count(), DESTINATIONS_MAX);
        assert_eq!(cache.recall(now, remote(0, 1)), None);
        assert!(cache.recall(now, remote(1, 1)).is_some());
    }

    #[test]
    fn ports_and_spellings_of_an_address_share_a_record_until_it_is_too_old() {
        let record = Record(Instant::now());
        let mut cache = DestinationCache::default();
        cache.remember("[::ffff:192.0.2.1]:5".parse().unwrap(), record);
        let other = "192.0.2.1:6".parse().unwrap();
        assert_eq!(cache.recall(record.at(), other), Some(record));
        assert_eq!(cache.recall(record.until(), other), None);
        assert_eq!(cache.iter(record.at()).count(), 0, "forgotten");
    }
}
