//! The sealer: the sending direction.

use std::sync::Arc;

use super::{
    ReceiverId,
    ids::SendingIds,
    protection::{DirectionKeys, Generation, Mask},
};
use crate::{
    units::Level,
    wire::header::{self, HEADER_LEN, Header, PACKET_NUMBER_END, SAMPLE_LEN, TAG_LEN},
};

/// Seals datagrams in the order they are finished, which is the order of their packet numbers.
pub struct Sealer {
    pub(crate) ids: SendingIds,
    direction: Arc<dyn DirectionKeys>,
    /// `None` before the first datagram: most connections never send one.
    ready: Option<SealerKeys>,
    key_phase: bool,
    pub(super) packet_number: u64,
    /// How many packets the current key has sealed.
    sealed: u64,
    /// After how many the next key is used. Only tests change it.
    pub packets_per_key: u64,
}

/// The keys of a [`Sealer`], about a kilobyte.
struct SealerKeys {
    mask: Box<dyn Mask>,
    generation: Box<dyn Generation>,
}

impl Sealer {
    /// Overhead of a datagram beyond its payload, in bytes: header and tag.
    pub const OVERHEAD: usize = HEADER_LEN + TAG_LEN;

    pub(super) fn new(direction: &Arc<dyn DirectionKeys>) -> Self {
        Self {
            ids: SendingIds::new(direction.clone()),
            direction: direction.clone(),
            ready: None,
            key_phase: false,
            packet_number: 0,
            sealed: 0,
            // The confidentiality limit of AEAD_AES_128_GCM (RFC 9001 §6.6).
            packets_per_key: 1 << 23,
        }
    }

    /// Continues the packet numbers of other keys.
    pub(crate) fn continuing_at(self, packet_number: u64) -> Self {
        Self { packet_number, ..self }
    }

    /// The packet number of the next datagram.
    pub fn next_number(&self) -> u64 {
        self.packet_number
    }

    /// Starts a datagram at the end of `buf`, which may already have finished ones (a GSO batch). The caller then
    /// appends the payload and calls [`Self::finish`]; or truncates `buf` to its former length and drops the
    /// [`Sealing`], which uses no packet number.
    ///
    /// `level` must not be the primary's: no receiver would accept the datagram.
    pub fn begin(&mut self, level: Level, buf: &mut Vec<u8>) -> Sealing {
        self.begin_for(level, self.ids.current, buf)
    }

    /// Like [`Self::begin`], for a path that may be used next.
    pub fn begin_on_next_path(&mut self, level: Level, buf: &mut Vec<u8>) -> Sealing {
        self.begin_for(level, self.ids.next, buf)
    }

    /// Further datagrams are for another path, on which the receiver has another id. Returns its number, which the
    /// receiver must be informed of.
    pub fn change_path(&mut self) -> u64 {
        self.ids.advance()
    }

    fn begin_for(&mut self, level: Level, receiver: ReceiverId, buf: &mut Vec<u8>) -> Sealing {
        debug_assert!(!level.is_primary(), "level 0 belongs to the primary loop");
        let start = buf.len();
        buf.extend_from_slice(&[0; HEADER_LEN]);
        Sealing { start, level, receiver }
    }

    /// Seals the datagram from where `sealing` began to the end of `buf`, and returns its packet number.
    ///
    /// # Panics
    /// When `buf` has been truncated to before the payload, or after 2^62 packets.
    pub fn finish(&mut self, sealing: Sealing, buf: &mut Vec<u8>) -> u64 {
        if self.sealed >= self.packets_per_key {
            let ready = self.ready();
            ready.generation = ready.generation.next();
            self.key_phase = !self.key_phase;
            self.sealed = 0;
        }
        let packet_number = self.packet_number;
        assert!(packet_number < PACKET_NUMBER_END, "the packet numbers of this connection are used up");
        let mut header = Header {
            key_phase: self.key_phase,
            reserved: false,
            level: sealing.level,
            receiver: sealing.receiver,
            packet_number: packet_number as u32,
        }
        .emit();

        let ready = self.ready();
        let tag = ready.generation.seal(packet_number, &header, &mut buf[sealing.start + HEADER_LEN..]);
        buf.extend_from_slice(&tag);
        let (place, sealed) = buf[sealing.start..].split_at_mut(HEADER_LEN);
        let mask = ready.mask.of(&sealed[..SAMPLE_LEN]).expect("the sample has the length of a block");
        header::apply_mask(&mut header, mask);
        place.copy_from_slice(&header);

        self.packet_number += 1;
        self.sealed += 1;
        packet_number
    }

    /// The mask that it uses.
    #[cfg(test)]
    pub(super) fn mask(&self) -> Box<dyn Mask> {
        self.direction.mask()
    }

    fn ready(&mut self) -> &mut SealerKeys {
        let Self { direction, ready, .. } = self;
        ready.get_or_insert_with(|| SealerKeys { mask: direction.mask(), generation: direction.generation() })
    }
}

/// A started datagram: see [`Sealer::begin`].
#[derive(Debug)]
#[must_use = "the datagram is not sealed before `Sealer::finish`"]
pub struct Sealing {
    start: usize,
    level: Level,
    receiver: ReceiverId,
}
