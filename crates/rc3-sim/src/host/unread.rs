//! Datagrams that have arrived at a host whose process has not read them yet.

use std::{
    mem,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use rc3_core::DatagramMeta;

type UnreadDatagram = (DatagramMeta, BytesMut);

/// In the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Unread {
    datagrams: Vec<UnreadDatagram>,
    /// Reads are at multiples of a time from here, that of the first datagram.
    first: Option<Instant>,
    due: Option<Instant>,
}

impl Unread {
    /// One arrives at a host that reads every so often, or else at once, and not before `from`.
    pub(super) fn push(&mut self, now: Instant, from: Instant, every: Duration, datagram: UnreadDatagram) {
        let first = *self.first.get_or_insert(now);
        self.datagrams.push(datagram);
        self.due.get_or_insert_with(|| match every.as_nanos() {
            0 => from,
            every => {
                let reads = (from - first).as_nanos().div_ceil(every);
                first + Duration::from_nanos(u64::try_from(reads * every).unwrap_or(u64::MAX))
            }
        });
    }

    /// When the next read is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What a read at `now` returns; nothing before it is due.
    pub(super) fn take(&mut self, now: Instant) -> Vec<UnreadDatagram> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.due = None;
        mem::take(&mut self.datagrams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_read_together_at_multiples() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let every = Duration::from_millis(1);
        let mut unread = Unread::default();
        let arrive = |unread: &mut Unread, micros| {
            let remote = ([10, 0, 0, 1], 9).into();
            let arrived = Some(at(micros));
            let meta = DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived };
            unread.push(at(micros), at(micros), every, (meta, BytesMut::new()));
        };
        arrive(&mut unread, 0);
        assert_eq!(unread.take(at(0)).len(), 1);
        arrive(&mut unread, 1200);
        arrive(&mut unread, 1900);
        assert_eq!((unread.due(), unread.take(at(1999)).len()), (Some(at(2000)), 0));
        let arrived: Vec<_> = unread.take(at(2000)).into_iter().map(|(meta, _)| meta.arrived).collect();
        assert_eq!(arrived, [Some(at(1200)), Some(at(1900))]);
        assert_eq!(unread.due(), None);
    }
}
