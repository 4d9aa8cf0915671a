//! The datagrams that probe a path: authenticated with a key of their session, padded to any length.
//!
//! A reply is as long as its probe, and each probe gets one, so a listener amplifies nothing. Datagrams without
//! authentication get no reply.

use serde::{Deserialize, Serialize};

use crate::transfer::ticket::Secret;

/// QUIC's fixed bit is set, so that steering passes the datagram on.
const MAGIC: [u8; 4] = *b"Rc3d";
const TAG: usize = 32;
/// Bytes in front of the fields: [`MAGIC`], and the tag of all that follows.
const HEAD: usize = MAGIC.len() + TAG;
/// Bytes that any fields fit into.
const FIELDS_MAX: usize = 40;
/// The shortest datagram.
pub const LEN_MIN: usize = HEAD + FIELDS_MAX;
/// DSCPs that exist.
pub(super) const DSCPS: u8 = 64;

/// The kind of datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ProbeKind {
    /// Request for an answer at once, with the DSCP of the probe.
    #[default]
    Mark,
    /// Request for an answer together with the others of its round, low priority first.
    Burst,
    /// The answer.
    Reply,
    /// The visitor has all it wants; no answer.
    End,
}

/// One datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Probe {
    /// The kind.
    pub kind: ProbeKind,
    /// DSCP when sent.
    pub dscp: u8,
    /// In replies: DSCP on arrival at the listener.
    pub seen: u8,
    /// Whether it has low priority.
    pub low: bool,
    /// In replies: low-priority probes of the round that arrived.
    pub low_arrived: u8,
    /// In replies: the round's normal probes that arrived.
    pub normal_arrived: u8,
    /// Number of the round.
    pub round: u32,
    /// In replies: how many probes of the session arrived earlier.
    pub order: u32,
    /// Time of sending, in nanoseconds of the sender's clock.
    pub sent: u64,
    /// In replies: time of arrival, in nanoseconds of the listener's clock.
    pub arrived: u64,
}

/// The key of the probes of one session.
#[derive(Clone)]
pub struct ProbeKey([u8; 32]);

impl ProbeKey {
    /// The key from the ticket's secret and the number of the session.
    pub fn new(secret: Secret, session: u64) -> Self {
        let material = [&secret.0[..], &session.to_be_bytes()].concat();
        Self(blake3::derive_key("rc3 check 1 probe authentication", &material))
    }
}

impl Probe {
    /// Encodes it in `len` bytes, at least [`LEN_MIN`].
    pub fn emit(&self, key: &ProbeKey, len: usize) -> Vec<u8> {
        let mut out = vec![0; len.max(LEN_MIN)];
        let (head, body) = out.split_at_mut(HEAD);
        let fits = postcard::to_slice(self, body).is_ok();
        debug_assert!(fits, "{self:?}");
        head[..MAGIC.len()].copy_from_slice(&MAGIC);
        head[MAGIC.len()..].copy_from_slice(blake3::keyed_hash(&key.0, body).as_bytes());
        out
    }

    /// Parses an authentic datagram.
    pub fn parse(key: &ProbeKey, datagram: &[u8]) -> Option<Self> {
        let (tag, body) = datagram.strip_prefix(&MAGIC)?.split_first_chunk::<TAG>()?;
        // Hashes are compared in constant time.
        let is_authentic = blake3::Hash::from(*tag) == blake3::keyed_hash(&key.0, body);
        let (probe, _) = is_authentic.then(|| postcard::take_from_bytes::<Self>(body).ok())??;
        (probe.dscp < DSCPS).then_some(probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Probe = Probe {
        kind: ProbeKind::Burst,
        dscp: 63,
        seen: 255,
        low: true,
        low_arrived: 255,
        normal_arrived: 255,
        round: u32::MAX,
        order: u32::MAX,
        sent: u64::MAX,
        arrived: u64::MAX,
    };

    #[test]
    fn a_probe_survives_its_datagram() {
        let key = ProbeKey::new(Secret([1; 16]), 1);
        assert_eq!(Probe::parse(&key, &PROBE.emit(&key, 1200)), Some(PROBE));
        let shortest = PROBE.emit(&key, 0);
        assert_eq!((shortest.len(), Probe::parse(&key, &shortest)), (LEN_MIN, Some(PROBE)));
    }

    #[test]
    fn what_was_changed_or_cut_or_made_by_others_is_refused() {
        let key = ProbeKey::new(Secret([1; 16]), 1);
        let datagram = PROBE.emit(&key, LEN_MIN);
        for at in 0..datagram.len() {
            let mut changed = datagram.clone();
            changed[at] ^= 1;
            assert_eq!(Probe::parse(&key, &changed), None, "byte {at}");
            assert_eq!(Probe::parse(&key, &datagram[..at]), None, "{at} bytes");
        }
        for other in [ProbeKey::new(Secret([2; 16]), 1), ProbeKey::new(Secret([1; 16]), 2)] {
            assert_eq!(Probe::parse(&other, &datagram), None);
        }
    }
}
