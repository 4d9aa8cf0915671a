//! Connection ids that an application generates, and those of one worker among several. quinn-proto relies on their
//! length, and asks again for an id that is in use, without end.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

use crate::{config::random_id, laws::worker_hash::Destination, seams::keys::ReceiverId};

/// Most ids taken from the application during one call of the endpoint. A call needs at most nine: one for the
/// handshake and eight for the peer. So a generator that is asked more often repeats ids that are in use.
const IDS_PER_CALL: u32 = 64;

/// Ids drawn for one that leads to the right worker, times the number of workers. One in 2^46 searches fails by chance.
const DRAWS_PER_WORKER: usize = 32;

/// The shortest lifetime of ids.
const LIFETIME_MIN: Duration = Duration::from_secs(1);

/// How many ids the generator has made during the current call of the endpoint.
#[derive(Debug, Clone, Default)]
pub(super) struct IdCount(Arc<AtomicU32>);

impl IdCount {
    /// The endpoint is called.
    pub(super) fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// A generator; ids that quinn-proto cannot use are replaced with random ones of the same length. Clones are handles to
/// the same one: those of QUIC and of RLP come from one sequence, so that none is in both.
#[derive(Clone)]
pub(crate) struct CheckedIds(Arc<Mutex<CheckedGenerator>>);

struct CheckedGenerator {
    generator: Box<dyn ConnectionIdGenerator>,
    len: usize,
    destination: Option<Destination>,
    count: IdCount,
    /// An id was replaced, which is logged once.
    reported: bool,
}

impl CheckedIds {
    /// `generator` announces a valid length.
    pub(super) fn new(
        generator: Box<dyn ConnectionIdGenerator>,
        destination: Option<Destination>,
        count: IdCount,
    ) -> Self {
        let len = generator.cid_len();
        Self(Arc::new(Mutex::new(CheckedGenerator { len, generator, destination, count, reported: false })))
    }

    /// An id for RLP datagrams; `None` if the generator makes longer ones.
    pub(crate) fn receiver_id(&self) -> Option<ReceiverId> {
        self.with(|inner| {
            inner.count.reset();
            let id = (inner.len == size_of::<ReceiverId>()).then(|| inner.generate())?;
            Some(ReceiverId(id.first_chunk().copied()?))
        })
    }

    fn with<T>(&self, ask: impl FnOnce(&mut CheckedGenerator) -> T) -> T {
        ask(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CheckedGenerator {
    fn generate(&mut self) -> ConnectionId {
        if self.count.0.fetch_add(1, Relaxed) >= IDS_PER_CALL {
            return self.replace("the generator repeats ids that are in use");
        }
        let draws = self.destination.map_or(1, |to| DRAWS_PER_WORKER * to.hash.workers());
        for _ in 0..draws {
            let id = self.generator.generate_cid();
            if id.len() != self.len {
                return self.replace("an id differs from the announced length");
            }
            if self.destination.is_none_or(|to| to.is_reached_by(&id)) {
                return id;
            }
        }
        self.replace("the last eight bytes of the ids do not vary enough for several workers")
    }

    fn replace(&mut self, cause: &str) -> ConnectionId {
        if !self.reported {
            self.reported = true;
            tracing::error!(cause, "unusable connection ids, random ones are used; correct the generator");
        }
        loop {
            let id = random_id(self.len);
            if self.destination.is_none_or(|to| to.is_reached_by(&id)) {
                return id;
            }
        }
    }
}

impl ConnectionIdGenerator for CheckedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.with(CheckedGenerator::generate)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        // Replaced ids are valid, too.
        self.with(|inner| if inner.reported { Ok(()) } else { inner.generator.validate(id) })
    }

    fn cid_len(&self) -> usize {
        self.with(|inner| inner.len)
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        // Shorter ones would make the peer replace ids all the time.
        self.with(|inner| inner.generator.cid_lifetime()).map(|lifetime| lifetime.max(LIFETIME_MIN))
    }
}

#[cfg(test)]
mod tests {
    use quinn_proto::RandomConnectionIdGenerator;

    use super::*;
    use crate::laws::worker_hash::WorkerHash;

    /// Repeats one id.
    struct Stuck(ConnectionId);

    impl ConnectionIdGenerator for Stuck {
        fn generate_cid(&mut self) -> ConnectionId {
            self.0
        }

        fn cid_len(&self) -> usize {
            self.0.len()
        }

        fn cid_lifetime(&self) -> Option<Duration> {
            None
        }
    }

    fn destination(workers: usize, worker: usize, id_len: usize) -> Destination {
        Destination { hash: WorkerHash::new([7; 8], workers, id_len), worker }
    }

    #[test]
    fn all_ids_of_a_worker_lead_to_it() {
        for (workers, len) in [(1, 8), (2, 8), (3, 12), (8, 20), (64, 8)] {
            for worker in 0..workers {
                let to = destination(workers, worker, len);
                let generator = Box::new(RandomConnectionIdGenerator::new(len));
                let mut ids = CheckedIds::new(generator, Some(to), IdCount::default());
                for _ in 0..20 {
                    assert!(to.is_reached_by(&ids.generate_cid()));
                }
                assert_eq!(ids.receiver_id().is_some(), len == 8);
            }
        }
    }

    #[test]
    fn a_generator_whose_ids_never_lead_here_is_replaced() {
        let id = ConnectionId::new(&[5; 8]);
        let there = destination(4, 0, 8).hash.worker_of_id(&id);
        let to = destination(4, (there + 1) % 4, 8);
        let mut ids = CheckedIds::new(Box::new(Stuck(id)), Some(to), IdCount::default());
        let (one, other) = (ids.generate_cid(), ids.generate_cid());
        assert!(to.is_reached_by(&one) && to.is_reached_by(&other) && one != other);
    }
}
