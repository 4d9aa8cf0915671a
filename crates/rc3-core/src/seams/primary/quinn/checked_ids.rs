//! Connection ids that an application generates. quinn-proto relies on their length, and asks again for an id that is
//! in use, without end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

use crate::config::random_id;

/// Most ids taken from the application during one call of the endpoint. A call needs at most nine: one for the
/// handshake and eight for the peer. So a generator that is asked more often repeats ids that are in use.
const IDS_PER_CALL: u32 = 64;

/// The shortest lifetime of ids.
const LIFETIME_MIN: Duration = Duration::from_secs(1);

/// How many ids the application's generator has made during the current call of the endpoint.
#[derive(Debug, Clone, Default)]
pub(super) struct IdCount(Arc<AtomicU32>);

impl IdCount {
    /// The endpoint is called.
    pub(super) fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// The application's generator; ids that quinn-proto cannot use are replaced with random ones of the same length.
pub(super) struct CheckedIds {
    inner: Box<dyn ConnectionIdGenerator>,
    len: usize,
    count: IdCount,
    /// An id was replaced, which is logged once.
    reported: bool,
}

impl CheckedIds {
    /// `inner` announces a valid length.
    pub(super) fn new(inner: Box<dyn ConnectionIdGenerator>, count: IdCount) -> Self {
        Self { len: inner.cid_len(), inner, count, reported: false }
    }

    fn replace(&mut self, cause: &str) -> ConnectionId {
        if !self.reported {
            self.reported = true;
            tracing::error!(cause, "unusable connection ids, random ones are used; correct the generator");
        }
        random_id(self.len)
    }
}

impl ConnectionIdGenerator for CheckedIds {
    fn generate_cid(&mut self) -> ConnectionId {
        if self.count.0.fetch_add(1, Relaxed) >= IDS_PER_CALL {
            return self.replace("the generator repeats ids that are in use");
        }
        let id = self.inner.generate_cid();
        if id.len() == self.len { id } else { self.replace("an id differs from the announced length") }
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        // Replaced ids are valid, too.
        if self.reported { Ok(()) } else { self.inner.validate(id) }
    }

    fn cid_len(&self) -> usize {
        self.len
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        // Shorter ones would make the peer replace ids all the time.
        self.inner.cid_lifetime().map(|lifetime| lifetime.max(LIFETIME_MIN))
    }
}
