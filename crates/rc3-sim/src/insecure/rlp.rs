//! Unprotected RLP datagrams of the same lengths: stray ones are refused, forged ones are not.

use std::sync::Arc;

use rc3_core::internals::{
    keys::SECRET_LEN,
    security::{DirectionKeys, Generation, Mask, Protection, RECEIPT_SECRET_LEN, absorb},
    wire::{HEADER_LEN, ReceiverId, TAG_LEN},
};

use super::tag::Tagger;

/// Replaces the protection.
#[derive(Debug)]
pub(super) struct Unprotected;

impl Protection for Unprotected {
    fn direction(&self, secret: &[u8; SECRET_LEN]) -> Arc<dyn DirectionKeys> {
        Arc::new(Tagger::new(secret))
    }

    fn receipts(&self, secret: &[u8; RECEIPT_SECRET_LEN]) -> Box<dyn Mask> {
        Box::new(Tagger::new(secret))
    }
}

impl DirectionKeys for Tagger {
    fn id(&self, path: u64) -> ReceiverId {
        // Those below are for keys.
        const FIRST: u64 = 16;
        ReceiverId(self.derive(FIRST + path).key().to_be_bytes())
    }

    fn mask(&self) -> Box<dyn Mask> {
        Box::new(InTheClear)
    }

    fn generation(&self) -> Box<dyn Generation> {
        Box::new(*self)
    }

    fn decoy(&self) -> Box<dyn Generation> {
        Box::new(self.derive(0))
    }
}

impl Generation for Tagger {
    fn next(&self) -> Box<dyn Generation> {
        Box::new(self.following())
    }

    fn seal(&self, packet_number: u64, header: &[u8; HEADER_LEN], payload: &mut [u8]) -> [u8; TAG_LEN] {
        self.tag(packet_number, header, payload.len())
    }

    fn open(&self, packet_number: u64, header: &[u8; HEADER_LEN], sealed: &mut [u8]) -> Option<usize> {
        self.check(packet_number, header, sealed)
    }
}

/// Of receipts: a simulated peer that lies cannot make them, as with the AEAD.
impl Mask for Tagger {
    fn of(&self, sample: &[u8]) -> Option<[u8; 5]> {
        absorb(self.key(), sample).to_be_bytes().first_chunk().copied()
    }
}

/// Headers are not protected.
struct InTheClear;

impl Mask for InTheClear {
    fn of(&self, _: &[u8]) -> Option<[u8; 5]> {
        Some([0; 5])
    }
}
