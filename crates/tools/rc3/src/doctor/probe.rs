//! The datagrams of a check: fixed fields, authenticated with the ticket's secret, padded to any length.
//!
//! A reply is as long as its probe, and each probe gets one, so a listener amplifies nothing. Datagrams without
//! authentication by the secret get no reply.

use crate::transfer::ticket::{FINGERPRINT_BYTES, Fingerprint, Secret};

/// Bytes of the fields, big-endian, in the order of [`Probe`].
const FIELDS: usize = 42;
const TAG: usize = 16;
/// The shortest datagram.
pub const LEN_MIN: usize = FIELDS + TAG;
/// Bytes of the authenticated fingerprint of the certificate with which the listener takes part in a flow; they follow
/// the fields.
const INTRODUCTION: usize = FINGERPRINT_BYTES + TAG;
/// QUIC's fixed bit is set, so that steering passes the datagram on.
const MAGIC: [u8; 4] = *b"Rc3d";

/// The kind of datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Request for an answer at once, with the DSCP of the probe.
    Mark,
    /// Request for an answer together with the others of its round, low priority first.
    Burst,
    /// The answer.
    Reply,
    /// Announces a connection; no answer.
    Flow,
}

/// One datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The kind.
    pub kind: Kind,
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
    /// Number of the check.
    pub run: u64,
    /// Number of the round.
    pub round: u32,
    /// In replies: how many probes of the run arrived earlier.
    pub order: u32,
    /// Time of sending, in nanoseconds of the sender's clock.
    pub sent: u64,
    /// In replies: time of arrival, in nanoseconds of the listener's clock.
    pub arrived: u64,
}

/// The key of a check.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// The key from the ticket's secret.
    pub fn new(secret: Secret) -> Self {
        Self(blake3::derive_key("rc3 doctor 1 probe authentication", &secret.0))
    }

    fn tag(&self, fields: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.0, fields)
    }

    /// Whether `claimed` is the tag of `fields`. Comparing hashes of the tags takes constant time.
    fn is_tag(&self, fields: &[u8], claimed: &[u8]) -> bool {
        blake3::hash(claimed) == blake3::hash(&self.tag(fields).as_bytes()[..TAG])
    }

    /// The proof of the ticket that opens a connection.
    pub fn password(&self) -> [u8; 32] {
        *self.tag(b"flow").as_bytes()
    }
}

impl Probe {
    /// A probe outside all rounds.
    pub fn request(kind: Kind) -> Self {
        Self {
            kind,
            dscp: 0,
            seen: 0,
            low: false,
            low_arrived: 0,
            normal_arrived: 0,
            run: 0,
            round: 0,
            order: 0,
            sent: 0,
            arrived: 0,
        }
    }

    /// Encodes it in `len` bytes, at least [`LEN_MIN`].
    pub fn emit(&self, key: &Key, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len.max(LEN_MIN));
        out.extend(MAGIC);
        let kind = match self.kind {
            Kind::Mark => 0,
            Kind::Burst => 1,
            Kind::Reply => 2,
            Kind::Flow => 3,
        };
        out.extend([kind, self.dscp, self.seen, self.low.into(), self.low_arrived, self.normal_arrived]);
        out.extend(self.run.to_be_bytes());
        out.extend(self.round.to_be_bytes());
        out.extend(self.order.to_be_bytes());
        out.extend(self.sent.to_be_bytes());
        out.extend(self.arrived.to_be_bytes());
        debug_assert_eq!(out.len(), FIELDS);
        let tag = key.tag(&out);
        out.extend(&tag.as_bytes()[..TAG]);
        out.resize(len.max(LEN_MIN), 0);
        out
    }

    /// Like [`Self::emit`], with the fingerprint of the listener's certificate if there is room.
    pub fn emit_with(&self, key: &Key, len: usize, fingerprint: Fingerprint) -> Vec<u8> {
        let mut out = self.emit(key, len);
        if let Some(room) = out.get_mut(LEN_MIN..LEN_MIN + INTRODUCTION) {
            let (print, tag) = room.split_at_mut(FINGERPRINT_BYTES);
            print.copy_from_slice(&fingerprint.0);
            tag.copy_from_slice(&key.tag(&fingerprint.0).as_bytes()[..TAG]);
        }
        out
    }

    /// The fingerprint in a datagram, if present and authentic.
    pub fn fingerprint(key: &Key, datagram: &[u8]) -> Option<Fingerprint> {
        let (print, tag) =
            datagram.get(LEN_MIN..LEN_MIN + INTRODUCTION)?.split_first_chunk::<FINGERPRINT_BYTES>()?;
        key.is_tag(print, tag).then_some(Fingerprint(*print))
    }

    /// Parses an authentic datagram.
    pub fn parse(key: &Key, datagram: &[u8]) -> Option<Self> {
        let (fields, rest) = datagram.split_at_checked(FIELDS)?;
        let claimed = rest.get(..TAG)?;
        if !key.is_tag(fields, claimed) {
            return None;
        }
        let (magic, fields) = fields.split_first_chunk::<4>()?;
        let (&[kind, dscp, seen, low, low_arrived, normal_arrived], fields) =
            fields.split_first_chunk::<6>()?;
        let (run, fields) = fields.split_first_chunk()?;
        let (round, fields) = fields.split_first_chunk()?;
        let (order, fields) = fields.split_first_chunk()?;
        let (sent, fields) = fields.split_first_chunk()?;
        let arrived = fields.first_chunk()?;
        let kind = match kind {
            0 => Kind::Mark,
            1 => Kind::Burst,
            2 => Kind::Reply,
            3 => Kind::Flow,
            _ => return None,
        };
        (*magic == MAGIC && dscp < 64).then_some(Self {
            kind,
            dscp,
            seen,
            low: low != 0,
            low_arrived,
            normal_arrived,
            run: u64::from_be_bytes(*run),
            round: u32::from_be_bytes(*round),
            order: u32::from_be_bytes(*order),
            sent: u64::from_be_bytes(*sent),
            arrived: u64::from_be_bytes(*arrived),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Probe = Probe {
        kind: Kind::Burst,
        dscp: 1,
        seen: 0,
        low: true,
        low_arrived: 3,
        normal_arrived: 4,
        run: 5,
        round: 6,
        order: 7,
        sent: 8,
        arrived: u64::MAX,
    };

    #[test]
    fn a_probe_survives_its_datagram() {
        let key = Key::new(Secret([1; 16]));
        assert_eq!(Probe::parse(&key, &PROBE.emit(&key, 1200)), Some(PROBE));
        assert_eq!(PROBE.emit(&key, 0).len(), LEN_MIN);
    }

    #[test]
    fn only_the_holder_of_the_ticket_introduces_a_certificate() {
        let (key, print) = (Key::new(Secret([1; 16])), Fingerprint([7; 32]));
        let mut datagram = PROBE.emit_with(&key, 1200, print);
        assert_eq!(Probe::parse(&key, &datagram), Some(PROBE));
        assert_eq!(Probe::fingerprint(&key, &datagram), Some(print));
        assert_eq!(Probe::fingerprint(&Key::new(Secret([2; 16])), &datagram), None);
        assert_eq!(Probe::fingerprint(&key, &PROBE.emit(&key, 1200)), None);
        assert_eq!(Probe::fingerprint(&key, &PROBE.emit_with(&key, LEN_MIN + 47, print)), None);
        datagram[LEN_MIN] ^= 1;
        assert_eq!(Probe::fingerprint(&key, &datagram), None);
    }

    #[test]
    fn what_was_changed_or_cut_or_made_by_others_is_refused() {
        let key = Key::new(Secret([1; 16]));
        let datagram = PROBE.emit(&key, LEN_MIN);
        for at in 0..datagram.len() {
            let mut changed = datagram.clone();
            changed[at] ^= 1;
            assert_eq!(Probe::parse(&key, &changed), None, "byte {at}");
            assert_eq!(Probe::parse(&key, &datagram[..at]), None, "{at} bytes");
        }
        assert_eq!(Probe::parse(&Key::new(Secret([2; 16])), &datagram), None);
    }
}
