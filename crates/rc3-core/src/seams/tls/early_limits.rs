//! Limits of a server that clients remember with a ticket and use for 0-RTT data (RFC 9000 §7.4.1).
//!
//! A server must reject early data if its limits have become smaller. Neither quinn-proto 0.11.19 nor rustls compares
//! them, and quinn-proto's clients then end the connection. So each stored session has the limits it was issued with, and
//! one with larger limits than today's is not resumed: the handshake is a full one, and its early data is rejected.

use std::sync::Arc;

use rustls::server::StoresServerSessions;

/// Bytes of an encoded limit.
const LIMIT_BYTES: usize = 8;

/// The number of limits.
const LIMITS: usize = 5;

/// What follows each session in the store.
const TRAILER_BYTES: usize = LIMITS * LIMIT_BYTES;

/// Limits on early data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EarlyLimits {
    /// Bytes on all streams.
    pub(crate) data: u64,
    /// Bytes on each.
    pub(crate) stream_data: u64,
    /// Bidirectional streams.
    pub(crate) bidi: u64,
    /// Unidirectional streams.
    pub(crate) uni: u64,
    /// One more than the bytes of a datagram; 0: none are accepted.
    pub(crate) datagram: u64,
}

impl EarlyLimits {
    fn numbers(&self) -> [u64; LIMITS] {
        let Self { data, stream_data, bidi, uni, datagram } = *self;
        [data, stream_data, bidi, uni, datagram]
    }

    /// Whether a client may rely on what it remembers.
    fn support(&self, remembered: impl IntoIterator<Item = u64>) -> bool {
        self.numbers().into_iter().zip(remembered).all(|(now, then)| then <= now)
    }

    fn append_to(&self, session: &mut Vec<u8>) {
        session.extend(self.numbers().into_iter().flat_map(u64::to_be_bytes));
    }

    /// The session without its limits, if these are supported.
    fn strip_from(&self, mut session: Vec<u8>) -> Option<Vec<u8>> {
        let len = session.len().checked_sub(TRAILER_BYTES)?;
        let (remembered, _) = session[len..].as_chunks::<LIMIT_BYTES>();
        if !self.support(remembered.iter().copied().map(u64::from_be_bytes)) {
            return None;
        }
        session.truncate(len);
        Some(session)
    }
}

/// The application's store of sessions, each with limits. Sessions that others put there, without limits, are not
/// resumed.
#[derive(Debug)]
pub(super) struct LimitedSessions {
    pub(super) store: Arc<dyn StoresServerSessions>,
    pub(super) limits: EarlyLimits,
}

impl StoresServerSessions for LimitedSessions {
    fn put(&self, key: Vec<u8>, mut value: Vec<u8>) -> bool {
        self.limits.append_to(&mut value);
        self.store.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.limits.strip_from(self.store.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.limits.strip_from(self.store.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.store.can_cache()
    }
}

#[cfg(test)]
mod tests {
    use rustls::server::ServerSessionMemoryCache;

    use super::*;

    const THEN: EarlyLimits = EarlyLimits { data: 9, stream_data: 8, bidi: 7, uni: 6, datagram: 5 };

    #[test]
    fn a_session_with_a_larger_limit_than_todays_is_not_found() {
        let store = ServerSessionMemoryCache::new(10);
        let with = |limits| LimitedSessions { store: store.clone(), limits };
        let put = || assert!(with(THEN).put(b"key".to_vec(), b"session".to_vec()));
        for same_or_larger in [THEN, EarlyLimits { uni: 100, ..THEN }] {
            put();
            assert_eq!(with(same_or_larger).get(b"key").as_deref(), Some(&b"session"[..]));
            assert_eq!(with(same_or_larger).take(b"key").as_deref(), Some(&b"session"[..]));
        }
        let smaller = [
            EarlyLimits { data: 8, ..THEN },
            EarlyLimits { stream_data: 7, ..THEN },
            EarlyLimits { bidi: 6, ..THEN },
            EarlyLimits { uni: 5, ..THEN },
            EarlyLimits { datagram: 0, ..THEN },
        ];
        for smaller in smaller {
            put();
            assert_eq!(with(smaller).get(b"key"), None);
            assert_eq!(with(smaller).take(b"key"), None);
        }
    }

    #[test]
    fn a_session_without_limits_is_not_found() {
        let store = ServerSessionMemoryCache::new(10);
        let limited = LimitedSessions { store: store.clone(), limits: EarlyLimits::default() };
        for len in [0, 1, TRAILER_BYTES - 1, TRAILER_BYTES, 200] {
            store.put(b"key".to_vec(), vec![1; len]);
            assert_eq!(limited.take(b"key"), None, "{len}");
        }
    }
}
