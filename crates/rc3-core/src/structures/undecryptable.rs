//! RLP datagrams that arrived before their keys: they can overtake the last flight of the handshake, or as early data
//! the client's secret, and they can arrive before the application has accepted the handshake.
//!
//! Without keys it is unknown whose they are. So only those are stored that come from an address with a handshake in
//! progress, a bounded number for each such address: junk from elsewhere displaces nothing.

use std::{collections::HashMap, net::SocketAddr, time::Instant};

use bytes::BytesMut;

/// Datagrams stored for one address.
const DATAGRAMS_MAX: usize = 256;

/// Bytes stored for all addresses. Later ones are dropped; the primary brings the data.
const BYTES_MAX: usize = 4 << 20;

/// A stored datagram, and when the system received it.
pub(crate) type StoredDatagram = (Instant, BytesMut);

/// The waiting datagrams, by source address.
#[derive(Debug, Default)]
pub(crate) struct Undecryptable {
    /// Hashed with a key: peers choose their addresses.
    waiting: HashMap<SocketAddr, AddressBacklog>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct AddressBacklog {
    handshakes: usize,
    datagrams: Vec<StoredDatagram>,
}

impl Undecryptable {
    /// A handshake with `remote` begins; returns whether it is the only one in progress.
    pub(crate) fn begin(&mut self, remote: SocketAddr) -> bool {
        let waiting = self.waiting.entry(remote).or_default();
        waiting.handshakes += 1;
        waiting.handshakes == 1
    }

    /// Whether a handshake with `remote` is in progress.
    pub(crate) fn is_waiting(&self, remote: SocketAddr) -> bool {
        self.waiting.contains_key(&remote)
    }

    /// Whether no handshake is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A datagram for an unknown receiver arrived. A copy is stored: the datagram may be part of a larger buffer.
    pub(crate) fn keep(&mut self, remote: SocketAddr, arrived: Instant, datagram: &[u8]) {
        let Some(waiting) = self.waiting.get_mut(&remote) else { return };
        if waiting.datagrams.len() < DATAGRAMS_MAX && self.bytes + datagram.len() <= BYTES_MAX {
            self.bytes += datagram.len();
            waiting.datagrams.push((arrived, datagram.into()));
        }
    }

    /// A handshake with `remote` was refused.
    pub(crate) fn give_up(&mut self, remote: SocketAddr) {
        self.end(remote, &|_| false);
    }

    /// There are keys, and the handshake with `remote` continues: takes the datagrams from there that are `ours`.
    pub(crate) fn take(&mut self, remote: SocketAddr, ours: &dyn Fn(&[u8]) -> bool) -> Vec<StoredDatagram> {
        let Some(waiting) = self.waiting.get_mut(&remote) else { return Vec::new() };
        let taken: Vec<_> = waiting.datagrams.extract_if(.., |(_, datagram)| ours(datagram)).collect();
        self.bytes -= bytes(&taken);
        taken
    }

    /// A handshake with `remote` has ended: takes the datagrams from there that are `ours`.
    pub(crate) fn end(&mut self, remote: SocketAddr, ours: &dyn Fn(&[u8]) -> bool) -> Vec<StoredDatagram> {
        let taken = self.take(remote, ours);
        if let Some(waiting) = self.waiting.get_mut(&remote) {
            waiting.handshakes -= 1;
            if waiting.handshakes == 0 {
                self.bytes -= bytes(&waiting.datagrams);
                self.waiting.remove(&remote);
            }
        }
        taken
    }
}

fn bytes(datagrams: &[StoredDatagram]) -> usize {
    datagrams.iter().map(|(_, datagram)| datagram.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(nth: u8) -> SocketAddr {
        ([192, 0, 2, nth], 1).into()
    }

    fn keep(undecryptable: &mut Undecryptable, remote: SocketAddr, datagram: &[u8]) {
        undecryptable.keep(remote, Instant::now(), datagram);
    }

    fn contents(kept: Vec<StoredDatagram>) -> Vec<BytesMut> {
        kept.into_iter().map(|(_, datagram)| datagram).collect()
    }

    fn begins_with(byte: u8) -> impl Fn(&[u8]) -> bool {
        move |datagram| datagram.first() == Some(&byte)
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes of interpretation")]
    fn junk_from_elsewhere_pushes_nothing_out() {
        let mut undecryptable = Undecryptable::default();
        undecryptable.begin(host(1));
        keep(&mut undecryptable, host(1), b"1 wanted");
        for _ in 0..10_000 {
            keep(&mut undecryptable, host(2), &[2; 1200]);
        }
        assert_eq!(contents(undecryptable.end(host(1), &begins_with(b'1'))), [&b"1 wanted"[..]]);
        assert_eq!((undecryptable.bytes, undecryptable.waiting.len()), (0, 0));
    }

    #[test]
    fn handshakes_from_one_address_take_their_own() {
        let mut undecryptable = Undecryptable::default();
        undecryptable.begin(host(1));
        undecryptable.begin(host(1));
        for datagram in [&b"1a"[..], b"2b", b"1c", b"junk"] {
            keep(&mut undecryptable, host(1), datagram);
        }
        assert_eq!(contents(undecryptable.take(host(1), &begins_with(b'1'))), [&b"1a"[..], b"1c"]);
        keep(&mut undecryptable, host(1), b"1d");
        assert_eq!(contents(undecryptable.end(host(1), &begins_with(b'1'))), [&b"1d"[..]]);
        assert_eq!(contents(undecryptable.end(host(1), &begins_with(b'2'))), [&b"2b"[..]]);
        assert_eq!((undecryptable.bytes, undecryptable.waiting.len()), (0, 0));
        assert!(undecryptable.end(host(1), &begins_with(b'1')).is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded_by_address_and_in_all() {
        let mut undecryptable = Undecryptable::default();
        for nth in 0..200 {
            undecryptable.begin(host(nth));
            for _ in 0..DATAGRAMS_MAX + 10 {
                keep(&mut undecryptable, host(nth), &[nth; 1200]);
            }
            assert!(undecryptable.waiting[&host(nth)].datagrams.len() <= DATAGRAMS_MAX);
        }
        assert!(undecryptable.bytes <= BYTES_MAX && undecryptable.bytes > BYTES_MAX - 1200);
    }
}
