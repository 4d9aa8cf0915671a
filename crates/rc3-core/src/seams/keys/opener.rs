//! The opener: the receiving direction.

use std::{ops::Range, sync::Arc};

use super::{
    ids::ReceivingIds,
    protection::{DirectionKeys, Generation, Mask},
    receiver_id,
};
use crate::{
    structures::replay::{Freshness, ReplayWindow},
    units::Level,
    wire::header::{self, HEADER_LEN, Header, SAMPLE_LEN},
};

/// Opens datagrams in any order, each once.
///
/// Key phase and packet number alone choose the generation of keys, so each datagram costs one attempt, and all keys
/// that can be chosen exist beforehand: a forged key phase costs the same as any other forgery. The first datagram with
/// an id of ours makes all of them, whatever else is in it: most connections never receive one.
pub struct Opener {
    pub(crate) ids: ReceivingIds,
    direction: Arc<dyn DirectionKeys>,
    /// `None` before the first datagram.
    ready: Option<Box<OpenerKeys>>,
    /// The key phase of the current keys.
    pub(super) key_phase: bool,
    pub(super) failures: u64,
    /// After how many nothing opens any more. Only tests change it.
    pub(super) failures_max: u64,
}

/// Some five kilobytes: keys of [`Opener`], and the packet numbers that they have opened.
struct OpenerKeys {
    mask: Box<dyn Mask>,
    /// For packets that the key update overtook. Before the first update these are random keys, so that a flipped key
    /// phase takes as long to refuse as any other forgery (RFC 9001 §9.5).
    previous: Box<dyn Generation>,
    current: Box<dyn Generation>,
    /// Advances when the first packet sealed with it has authenticated.
    next: Box<dyn Generation>,
    /// Also knows the highest packet number authenticated, which is always one of `current`'s.
    replay: ReplayWindow,
}

impl OpenerKeys {
    fn new(direction: &dyn DirectionKeys) -> Self {
        let current = direction.generation();
        Self {
            mask: direction.mask(),
            previous: direction.decoy(),
            next: current.next(),
            current,
            replay: ReplayWindow::new(),
        }
    }
}

impl Opener {
    pub(super) fn new(direction: &Arc<dyn DirectionKeys>) -> Self {
        Self {
            ids: ReceivingIds::new(direction.clone()),
            direction: direction.clone(),
            ready: None,
            key_phase: false,
            failures: 0,
            // The integrity limit of AEAD_AES_128_GCM (RFC 9001 §6.6).
            failures_max: 1 << 52,
        }
    }

    /// Authenticates and decrypts `datagram` in place, and refuses repetitions.
    ///
    /// # Errors
    /// See [`OpenError`]. The content of `datagram` is then unspecified.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        if self.failures >= self.failures_max {
            return Err(OpenError::IntegrityLimit);
        }
        let path = receiver_id(datagram).and_then(|id| self.ids.number(id)).ok_or(OpenError::NotForUs)?;
        let (header, sealed) = datagram.split_first_chunk_mut::<HEADER_LEN>().ok_or(OpenError::NotForUs)?;
        let sample = sealed.get(..SAMPLE_LEN).ok_or(OpenError::NotForUs)?;
        let Self { direction, ready, .. } = self;
        let ready = ready.get_or_insert_with(|| Box::new(OpenerKeys::new(&**direction)));
        let mask = ready.mask.of(sample).ok_or(OpenError::NotForUs)?;
        header::apply_mask(header, mask);
        let fields = Header::parse(header);
        let packet_number = header::expand_packet_number(fields.packet_number, ready.replay.next);

        // An honest sender never goes back to older keys: the other key phase means newer ones above the highest packet
        // number, and older ones below (RFC 9001 §6.5).
        let is_current = fields.key_phase == self.key_phase;
        let is_next = !is_current && packet_number >= ready.replay.next;
        let generation = match is_current {
            true => &ready.current,
            false if is_next => &ready.next,
            false => &ready.previous,
        };
        let Some(payload_len) = generation.open(packet_number, header, sealed) else {
            self.failures += 1;
            let is_last = self.failures >= self.failures_max;
            return Err(if is_last { OpenError::IntegrityLimit } else { OpenError::Unauthentic });
        };

        // From here on the peer is authenticated.
        if is_next {
            let following = ready.next.next();
            ready.previous =
                std::mem::replace(&mut ready.current, std::mem::replace(&mut ready.next, following));
            self.key_phase = fields.key_phase;
        }
        match ready.replay.insert(packet_number) {
            Freshness::New => {}
            Freshness::Duplicate => return Err(OpenError::Duplicate),
            Freshness::TooOld => return Err(OpenError::TooOld),
        }
        self.ids.on_number(path);
        if fields.reserved {
            return Err(OpenError::ReservedBit);
        }
        if fields.level.is_primary() {
            return Err(OpenError::PrimaryLevel);
        }
        Ok(Opened { level: fields.level, packet_number, payload: HEADER_LEN..HEADER_LEN + payload_len })
    }

    /// One above the highest packet number authenticated; 0 before the first.
    #[cfg(test)]
    pub(super) fn next_number(&self) -> u64 {
        self.ready.as_ref().map_or(0, |ready| ready.replay.next)
    }
}

/// An authentic datagram, opened for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The level it was sent at, 1 to 15.
    pub level: Level,
    /// Its packet number, below 2^62.
    pub packet_number: u64,
    /// Where in the datagram its decrypted frames lie.
    pub payload: Range<usize>,
}

/// Why a datagram was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Not an RLP datagram, or one with another receiver id. Drop it.
    NotForUs,
    /// Forged, damaged, or sealed with outdated keys. Drop it.
    Unauthentic,
    /// Opened before. Drop it.
    Duplicate,
    /// Below the replay window, so it may have been opened before. Drop it.
    TooOld,
    /// The peer set a bit that rc3/1 reserves.
    ReservedBit,
    /// The datagram claims level 0.
    PrimaryLevel,
    /// So many datagrams failed to authenticate that the next could be a lucky forgery (RFC 9001 §6.6): this and all
    /// further ones are refused.
    IntegrityLimit,
}

impl OpenError {
    /// Whether the datagram was the peer's and violated the protocol: the connection must be closed. A third party may
    /// have caused all other errors, so their datagrams are dropped without an answer.
    pub const fn is_peer_fault(self) -> bool {
        matches!(self, Self::ReservedBit | Self::PrimaryLevel)
    }
}
