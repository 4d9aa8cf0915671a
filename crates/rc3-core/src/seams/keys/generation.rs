//! What lasts from one key update to the next.

use ring::{
    aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, Prk},
};

use super::secret::expand_into;
#[cfg(feature = "simulation")]
use crate::simulation::tag::Tagger;
use crate::wire::header::{HEADER_LEN, TAG_LEN};

/// What protects datagrams between two key updates.
pub(super) enum Generation {
    Aead(Box<AeadGeneration>),
    #[cfg(feature = "simulation")]
    Simulated(Tagger),
}

impl Generation {
    /// The generation after this one.
    pub(super) fn next(&self) -> Self {
        match self {
            Self::Aead(aead) => Self::Aead(Box::new(aead.next())),
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => Self::Simulated(tagger.next()),
        }
    }

    pub(super) fn seal(
        &self,
        packet_number: u64,
        header: &[u8; HEADER_LEN],
        payload: &mut [u8],
    ) -> [u8; TAG_LEN] {
        match self {
            Self::Aead(aead) => aead.seal(packet_number, header, payload),
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => tagger.tag(packet_number, header, payload.len()),
        }
    }

    /// Decrypts `sealed`, ciphertext and tag, and returns the length of the payload.
    pub(super) fn open(
        &self,
        packet_number: u64,
        header: &[u8; HEADER_LEN],
        sealed: &mut [u8],
    ) -> Option<usize> {
        match self {
            Self::Aead(aead) => aead.open(packet_number, header, sealed),
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => tagger.check(packet_number, header, sealed),
        }
    }
}

/// The AEAD between two key updates.
pub(super) struct AeadGeneration {
    pub(super) secret: Prk,
    key: LessSafeKey,
    pub(super) iv: [u8; NONCE_LEN],
}

impl AeadGeneration {
    pub(super) fn new(secret: Prk) -> Self {
        let mut iv = [0; NONCE_LEN];
        expand_into(&secret, b"rc3 iv", &mut iv);
        let key = secret.expand(&[b"rc3 key"], &AES_128_GCM).expect("hkdf can yield 16 bytes");
        Self { key: LessSafeKey::new(UnboundKey::from(key)), iv, secret }
    }

    pub(super) fn next(&self) -> Self {
        let secret = self.secret.expand(&[b"rc3 ku"], HKDF_SHA256).expect("hkdf can yield 32 bytes");
        Self::new(Prk::from(secret))
    }

    pub(super) fn seal(
        &self,
        packet_number: u64,
        header: &[u8; HEADER_LEN],
        payload: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let tag = self
            .key
            .seal_in_place_separate_tag(self.nonce(packet_number), Aad::from(header), payload)
            .expect("datagrams are far shorter than AES-GCM can seal");
        *tag.as_ref().first_chunk().expect("the tag has the length of a block")
    }

    fn open(&self, packet_number: u64, header: &[u8; HEADER_LEN], sealed: &mut [u8]) -> Option<usize> {
        let payload = self.key.open_in_place(self.nonce(packet_number), Aad::from(header), sealed).ok()?;
        Some(payload.len())
    }

    /// RFC 9001 §5.3.
    pub(super) fn nonce(&self, packet_number: u64) -> Nonce {
        let mut nonce = self.iv;
        let (_, low) = nonce.split_at_mut(NONCE_LEN - size_of::<u64>());
        for (byte, number) in low.iter_mut().zip(packet_number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}
