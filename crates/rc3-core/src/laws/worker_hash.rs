//! Which of the workers on one port serves a connection: a keyed hash of the connection's id.
//!
//! The hash is the same for ids of QUIC and of RLP, and so short that the kernel can compute it for each datagram
//! without a table. Workers choose only ids that lead to themselves. Invariant: without the key, an id says nothing
//! about its worker, so it links no two paths of a connection (RFC 9000 §9.5).
//!
//! It is HalfSipHash-1-3, which the kernel uses for its own tables, over the last eight bytes of the id. Ids have a
//! fixed length here, so the block with the length is left out.

use crate::{
    shows::shows,
    wire::header::{has_long_header, is_rlp},
};

/// Bytes of the id that decide. Every id has as many: RFC 9000 §7.2 requires it of a client's first ones, settings of
/// an endpoint's own ones, and ids of RLP have just these.
const HASHED_BYTES: usize = 8;

/// Where a long header has the length of the destination's id, which follows (RFC 8999 §5.1).
const LONG_ID_LEN_AT: usize = 5;

/// Chooses the worker for each datagram of a port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WorkerHash {
    key: [u32; 2],
    workers: u32,
    id_len: usize,
}

impl WorkerHash {
    /// Most workers of one port.
    pub const WORKERS_MAX: usize = 64;

    /// For `workers` workers, at least one, whose own ids of QUIC have `id_len` bytes, 8 to 20.
    pub(crate) fn new(key: [u8; 8], workers: usize, id_len: usize) -> Self {
        let [a, b, c, d, e, f, g, h] = key;
        let key = [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])];
        debug_assert!((1..=Self::WORKERS_MAX).contains(&workers));
        Self { key, workers: workers as u32, id_len: id_len.max(HASHED_BYTES) }
    }

    /// The hash with these parts, for endpoints that share a port with those of another process or take it over. `None`
    /// unless there are 1 to [`Self::WORKERS_MAX`] workers and ids have 8 to 20 bytes.
    pub fn from_parts(key: [u32; 2], workers: usize, id_len: usize) -> Option<Self> {
        let valid = (1..=Self::WORKERS_MAX).contains(&workers) && (HASHED_BYTES..=20).contains(&id_len);
        valid.then_some(Self { key, workers: workers as u32, id_len })
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.workers as usize
    }

    /// The length of the workers' own ids of QUIC.
    pub fn id_len(&self) -> usize {
        self.id_len
    }

    /// The key, as two words. Anyone who knows it can send all its connections to one worker.
    pub fn key(&self) -> [u32; 2] {
        self.key
    }

    /// Where the hashed bytes of a QUIC packet with a short header begin.
    pub fn short_header_offset(&self) -> usize {
        1 + self.id_len - HASHED_BYTES
    }

    /// The worker that serves the connection of a datagram, of QUIC or RLP. `None` without a whole id of at least eight
    /// bytes: such a datagram belongs to no connection, and any worker may handle it.
    ///
    /// Receiver ids that were derived from secrets (`docs/WIRE.md#protection`) lead to any worker.
    pub fn worker_of(&self, datagram: &[u8]) -> Option<usize> {
        let offset = if is_rlp(datagram) {
            1
        } else if has_long_header(datagram) {
            let len = usize::from(*datagram.get(LONG_ID_LEN_AT)?);
            LONG_ID_LEN_AT + 1 + len.checked_sub(HASHED_BYTES)?
        } else {
            self.short_header_offset()
        };
        Some(self.worker_of_bytes(*datagram.get(offset..)?.first_chunk()?))
    }

    /// The worker that an id leads to.
    pub(crate) fn worker_of_id(&self, id: &[u8]) -> usize {
        id.last_chunk().map_or(0, |hashed| self.worker_of_bytes(*hashed))
    }

    fn worker_of_bytes(&self, hashed: [u8; HASHED_BYTES]) -> usize {
        let [a, b, c, d, e, f, g, h] = hashed;
        let words = [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])];
        // The upper half of the hash, scaled: both factors have 16 bits.
        (((half_sip_hash_1_3(self.key, words) >> 16) * self.workers) >> 16) as usize
    }
}

shows!(WorkerHash: workers);

/// One worker of those that a hash chooses from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Destination {
    pub(crate) hash: WorkerHash,
    pub(crate) worker: usize,
}

impl Destination {
    /// Whether datagrams with this id go to the worker.
    pub(crate) fn is_reached_by(self, id: &[u8]) -> bool {
        self.hash.worker_of_id(id) == self.worker
    }
}

/// HalfSipHash (github.com/veorq/SipHash) of two whole words, with one round for each and three at the end.
fn half_sip_hash_1_3(key: [u32; 2], words: [u32; 2]) -> u32 {
    let mut v = [key[0], key[1], 0x6c79_6765 ^ key[0], 0x7465_6462 ^ key[1]];
    for word in words {
        v[3] ^= word;
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..3).for_each(|_| round(&mut v));
    v[1] ^ v[3]
}

fn round(v: &mut [u32; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(5) ^ v[0];
    v[0] = v[0].rotate_left(16);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(8) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(7) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[2];
    v[2] = v[2].rotate_left(16);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash(key: u64, workers: usize, id_len: usize) -> WorkerHash {
        WorkerHash::new(key.to_be_bytes(), workers, id_len)
    }

    /// A datagram of each kind that carries `id`.
    fn datagrams(id: &[u8]) -> [Vec<u8>; 3] {
        let long = [&[0xc3, 0, 0, 0, 1, id.len() as u8][..], id, &[9; 40]].concat();
        let short = [&[0x47][..], id, &[9; 40]].concat();
        let rlp = [&[0x07][..], &id[id.len() - 8..], &[9; 40]].concat();
        [long, short, rlp]
    }

    #[test]
    fn the_parts_of_a_hash_make_the_same_one() {
        let made = hash(7, 5, 12);
        assert_eq!(WorkerHash::from_parts(made.key(), made.workers(), made.id_len()), Some(made));
        for (workers, id_len) in [(0, 8), (65, 8), (2, 7), (2, 21)] {
            assert_eq!(WorkerHash::from_parts([1, 2], workers, id_len), None);
        }
    }

    proptest! {
        #[test]
        fn every_kind_of_datagram_follows_the_id_it_carries(
            key: u64,
            workers in 1..=WorkerHash::WORKERS_MAX,
            id in prop::collection::vec(any::<u8>(), 8..=20),
        ) {
            let hash = hash(key, workers, id.len());
            let worker = hash.worker_of_id(&id);
            prop_assert!(worker < workers);
            for datagram in datagrams(&id) {
                prop_assert_eq!(hash.worker_of(&datagram), Some(worker));
            }
        }

        #[test]
        fn any_bytes_have_a_worker_or_none(
            key: u64,
            workers in 1..=WorkerHash::WORKERS_MAX,
            id_len in 8..=20_usize,
            datagram in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            prop_assert!(hash(key, workers, id_len).worker_of(&datagram).is_none_or(|worker| worker < workers));
        }
    }

    #[test]
    fn ids_that_count_up_spread_evenly_over_the_workers() {
        for workers in [2, 3, 5, 8, 64] {
            let hash = hash(0x0123_4567_89ab_cdef, workers, 8);
            let mut counts = vec![0_u32; workers];
            let per_worker = 4_000;
            for id in 0..workers as u64 * per_worker {
                counts[hash.worker_of_id(&id.to_be_bytes())] += 1;
            }
            // Six standard deviations.
            let bound = 6.0 * (per_worker as f64).sqrt();
            assert!(
                counts.iter().all(|&count| (f64::from(count) - per_worker as f64).abs() < bound),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn with_another_key_an_id_has_another_worker_as_often_as_chance_has_it() {
        let (one, other) = (hash(1, 4, 8), hash(2, 4, 8));
        let ids = (0..40_000_u64).map(u64::to_be_bytes);
        let same = ids.filter(|id| one.worker_of_id(id) == other.worker_of_id(id)).count();
        assert!(same.abs_diff(10_000) < 600, "{same}");
    }

    #[test]
    fn one_flipped_bit_of_an_id_changes_its_worker_as_often_as_chance_has_it() {
        let hash = hash(7, 2, 8);
        for bit in 0..64 {
            let flips = |id: &u64| {
                hash.worker_of_id(&id.to_be_bytes()) != hash.worker_of_id(&(id ^ (1 << bit)).to_be_bytes())
            };
            let changed =
                (0..4_000_u64).map(|id| id.wrapping_mul(0x9e37_79b9_7f4a_7c15)).filter(flips).count();
            assert!(changed.abs_diff(2_000) < 300, "bit {bit}: {changed}");
        }
    }
}
