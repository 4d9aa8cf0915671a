//! Which worker may open an RLP datagram whose id the endpoint did not choose: by its derived id, and before there are
//! keys by the address it came from.
//!
//! Early data can arrive at a worker before another one has read the first packet of its handshake, because each reads
//! its own socket. So a datagram that no worker can open waits a moment. Invariant: the datagrams that wait are bounded
//! in number, bytes and time, the entries by the connections and handshakes of the workers.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use rc3_core::RouteChange;

use super::{Parcel, copy};

/// Most datagrams that wait for a worker.
const WAITING_MAX: usize = 256;

/// Most bytes of them.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// How long they wait: until a worker that was about to read the first packet of the handshake has done so.
const WAITING_FOR: Duration = Duration::from_millis(50);

/// A set of workers, by bits: there are at most 64.
type Workers = u64;

/// The directory of one endpoint.
#[derive(Default)]
pub(super) struct Directory {
    /// Workers by derived receiver ids. Hashed with a key: peers influence the ids.
    ids: HashMap<[u8; 8], usize>,
    /// Workers that have a handshake in progress with this address.
    handshakes: HashMap<SocketAddr, Workers>,
    /// Datagrams of no known worker, oldest first, and when they are dropped.
    waiting: VecDeque<(Instant, Parcel)>,
    waiting_bytes: usize,
}

impl Directory {
    /// The workers that may open a datagram that worker `from` cannot. `hashed` is the one that its id leads to, as if
    /// the endpoint had chosen it.
    pub(super) fn workers_for(
        &mut self,
        now: Instant,
        from: usize,
        hashed: usize,
        parcel: &Parcel,
    ) -> Vec<usize> {
        if let Some(&worker) = id(parcel).and_then(|id| self.ids.get(&id)) {
            return vec![worker];
        }
        // The kernel joined it with datagrams of another connection.
        let joined = if hashed == from { 0 } else { 1 << hashed };
        let begun = self.handshakes.get(&parcel.0.remote).copied().unwrap_or_default();
        let workers = (begun | joined) & !(1 << from);
        if workers == 0 && begun == 0 {
            self.hold(now, parcel);
        }
        (0..Workers::BITS as usize).filter(|worker| workers & (1 << worker) != 0).collect()
    }

    /// Takes note of a change at a worker; returns the datagrams that waited for it.
    pub(super) fn apply_change(&mut self, now: Instant, worker: usize, change: RouteChange) -> Vec<Parcel> {
        match change {
            RouteChange::Issued(issued) => {
                self.ids.insert(issued, worker);
                self.take_held(now, |parcel| id(parcel) == Some(issued))
            }
            RouteChange::Retired(retired) => {
                if self.ids.get(&retired) == Some(&worker) {
                    self.ids.remove(&retired);
                }
                Vec::new()
            }
            RouteChange::Begun(remote) => {
                *self.handshakes.entry(remote).or_default() |= 1 << worker;
                self.take_held(now, |(meta, _)| meta.remote == remote)
            }
            RouteChange::Ended(remote) => {
                if let Some(workers) = self.handshakes.get_mut(&remote) {
                    *workers &= !(1 << worker);
                    if *workers == 0 {
                        self.handshakes.remove(&remote);
                    }
                }
                Vec::new()
            }
        }
    }

    fn hold(&mut self, now: Instant, parcel: &Parcel) {
        self.expire(now);
        let bytes = self.waiting_bytes + parcel.1.len();
        if self.waiting.len() < WAITING_MAX && bytes <= WAITING_BYTES_MAX {
            self.waiting_bytes = bytes;
            self.waiting.push_back((now + WAITING_FOR, copy(parcel)));
        }
    }

    fn take_held(&mut self, now: Instant, wanted: impl Fn(&Parcel) -> bool) -> Vec<Parcel> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.expire(now);
        let (taken, left): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(|(_, parcel)| wanted(parcel));
        self.waiting = left;
        taken
            .into_iter()
            .map(|(_, parcel)| {
                self.waiting_bytes -= parcel.1.len();
                parcel
            })
            .collect()
    }

    fn expire(&mut self, now: Instant) {
        while self.waiting.front().is_some_and(|&(until, _)| until <= now) {
            let dropped = self.waiting.pop_front();
            self.waiting_bytes -= dropped.map_or(0, |(_, parcel)| parcel.1.len());
        }
    }
}

/// The receiver id (docs/WIRE.md).
fn id((_, datagram): &Parcel) -> Option<[u8; 8]> {
    datagram.get(1..9)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use rc3_core::DatagramMeta;

    use super::*;

    fn host(nth: u8) -> SocketAddr {
        ([192, 0, 2, nth], 1).into()
    }

    fn parcel(remote: SocketAddr, id: u8) -> Parcel {
        let meta = DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None };
        (meta, BytesMut::from(&[&[7][..], &[id; 8], &[0; 1_191]].concat()[..]))
    }

    #[test]
    fn a_derived_id_leads_to_its_worker_until_that_retires_it() {
        let (mut directory, now) = (Directory::default(), Instant::now());
        directory.apply_change(now, 3, RouteChange::Issued([5; 8]));
        assert_eq!(directory.workers_for(now, 0, 0, &parcel(host(1), 5)), [3]);
        directory.apply_change(now, 2, RouteChange::Retired([5; 8]));
        assert_eq!(
            directory.workers_for(now, 0, 0, &parcel(host(1), 5)),
            [3],
            "it is not another worker's to retire"
        );
        directory.apply_change(now, 3, RouteChange::Retired([5; 8]));
        assert!(directory.workers_for(now, 0, 0, &parcel(host(1), 5)).is_empty());
        assert!(directory.ids.is_empty());
    }

    #[test]
    fn early_data_goes_to_the_workers_with_a_handshake_from_its_address() {
        let (mut directory, now) = (Directory::default(), Instant::now());
        for worker in [0, 1, 63] {
            directory.apply_change(now, worker, RouteChange::Begun(host(1)));
        }
        assert_eq!(directory.workers_for(now, 1, 1, &parcel(host(1), 5)), [0, 63]);
        assert!(directory.workers_for(now, 1, 1, &parcel(host(2), 5)).is_empty());
        for worker in [0, 63] {
            directory.apply_change(now, worker, RouteChange::Ended(host(1)));
        }
        assert!(directory.workers_for(now, 1, 1, &parcel(host(1), 5)).is_empty(), "it has a copy itself");
        assert_eq!(directory.waiting.len(), 1, "the other host's");
        directory.apply_change(now, 1, RouteChange::Ended(host(1)));
        assert!(directory.handshakes.is_empty());
    }

    #[test]
    fn a_joined_datagram_goes_where_its_id_leads() {
        let (mut directory, now) = (Directory::default(), Instant::now());
        assert_eq!(directory.workers_for(now, 0, 2, &parcel(host(1), 5)), [2]);
        assert!(directory.waiting.is_empty());
    }

    #[test]
    fn early_data_that_overtakes_its_handshake_waits_for_it() {
        let (mut directory, now) = (Directory::default(), Instant::now());
        for remote in [host(1), host(2)] {
            assert!(directory.workers_for(now, 0, 0, &parcel(remote, 5)).is_empty());
        }
        let later = now + WAITING_FOR / 2;
        assert_eq!(directory.apply_change(later, 1, RouteChange::Begun(host(1))).len(), 1);
        assert!(directory.apply_change(later, 2, RouteChange::Begun(host(1))).is_empty());
        assert_eq!(directory.apply_change(later, 1, RouteChange::Issued([5; 8])).len(), 1);
        assert_eq!((directory.waiting.len(), directory.waiting_bytes), (0, 0));
    }

    #[test]
    fn junk_waits_in_bounded_memory_for_a_bounded_time() {
        let (mut directory, now) = (Directory::default(), Instant::now());
        for nth in 0..10_000_u32 {
            directory.workers_for(now, 0, 0, &parcel(host(nth as u8), 9));
        }
        assert!(directory.waiting_bytes <= WAITING_BYTES_MAX && directory.waiting.len() <= WAITING_MAX);
        let later = now + WAITING_FOR;
        directory.workers_for(later, 0, 0, &parcel(host(1), 5));
        assert_eq!((directory.waiting.len(), directory.waiting_bytes), (1, 1_200));
    }
}
