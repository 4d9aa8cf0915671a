//! An endpoint's memory of its destinations: one record per address, a bounded number of them; old records are dropped.

use std::{collections::HashMap, net::IpAddr, ops::Range, time::Instant};

/// Destinations remembered. The one with the oldest evidence is replaced.
pub(crate) const DESTINATIONS_MAX: usize = 1024;

/// Records by destination; all ports of an address share a path.
#[derive(Debug)]
pub(crate) struct DestinationCache<R> {
    /// With the time of the last evidence, and when they expire. Hashed with a key: peers may choose their addresses.
    records: HashMap<IpAddr, (Range<Instant>, R)>,
}

impl<R> Default for DestinationCache<R> {
    fn default() -> Self {
        Self { records: HashMap::new() }
    }
}

impl<R: Copy> DestinationCache<R> {
    /// The record of the path to `destination`, if still valid.
    pub(crate) fn recall(&mut self, now: Instant, destination: IpAddr) -> Option<R> {
        let destination = destination.to_canonical();
        let &(ref valid, record) = self.records.get(&destination)?;
        if valid.end <= now {
            self.records.remove(&destination);
            return None;
        }
        Some(record)
    }

    /// Stores the record of the path to `destination`, from its last evidence until it expires.
    pub(crate) fn remember(&mut self, destination: IpAddr, valid: Range<Instant>, record: R) {
        let destination = destination.to_canonical();
        if self.records.len() >= DESTINATIONS_MAX && !self.records.contains_key(&destination) {
            let oldest = self.records.iter().min_by_key(|(_, (valid, _))| valid.start).map(|(&ip, _)| ip);
            oldest.map(|ip| self.records.remove(&ip));
        }
        self.records.insert(destination, (valid, record));
    }

    /// Drops the record of the path to `destination`.
    pub(crate) fn forget(&mut self, destination: IpAddr) {
        self.records.remove(&destination.to_canonical());
    }

    /// All valid records at `now`, in no order.
    pub(crate) fn iter(&self, now: Instant) -> impl Iterator<Item = R> {
        self.records.values().filter(move |(valid, _)| now < valid.end).map(|&(_, record)| record)
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use super::*;

    const AGE: Duration = Duration::from_secs(60);

    fn remote(host: u32) -> IpAddr {
        Ipv4Addr::from(host).into()
    }

    #[test]
    fn it_is_bounded_and_the_oldest_gives_way() {
        let now = Instant::now();
        let mut cache = DestinationCache::default();
        for host in 0..=DESTINATIONS_MAX as u32 {
            let at = now + Duration::from_millis(host.into());
            cache.remember(remote(host), at..at + AGE, host);
        }
        assert_eq!(cache.iter(now).count(), DESTINATIONS_MAX);
        assert_eq!(cache.recall(now, remote(0)), None);
        assert!(cache.recall(now, remote(1)).is_some());
    }

    #[test]
    fn spellings_of_an_address_share_a_record_until_it_is_too_old() {
        let now = Instant::now();
        let mut cache = DestinationCache::default();
        cache.remember("::ffff:192.0.2.1".parse().unwrap(), now..now + AGE, 7);
        let other = "192.0.2.1".parse().unwrap();
        assert_eq!(cache.recall(now, other), Some(7));
        assert_eq!(cache.recall(now + AGE, other), None);
        assert_eq!(cache.iter(now).count(), 0, "forgotten");
    }
}
