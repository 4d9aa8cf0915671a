//! Protection by AEAD_AES_128_GCM, with keys that HKDF derives as QUIC's are (RFC 9001 §5). What it holds is wiped when
//! dropped, except the keys inside types of [`cryptography`](crate::seams::cryptography), which offer no way to wipe
//! them.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::{
    RECEIPT_SECRET_LEN, ReceiverId, SECRET_LEN,
    protection::{DirectionKeys, Generation, Mask, Protection},
};
use crate::{
    seams::cryptography::{
        aead::{
            AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
            quic::{self, AES_128, HeaderProtectionKey},
        },
        hkdf::{self, HKDF_SHA256, Prk},
    },
    wire::header::{HEADER_LEN, TAG_LEN},
};

/// Encryption and authentication of all connections except simulated ones.
#[derive(Debug)]
pub struct Aead;

impl Protection for Aead {
    fn direction(&self, secret: &[u8; SECRET_LEN]) -> Arc<dyn DirectionKeys> {
        Arc::new(AeadDirection(Prk::new_less_safe(HKDF_SHA256, secret)))
    }

    fn receipts(&self, secret: &[u8; RECEIPT_SECRET_LEN]) -> Box<dyn Mask> {
        Box::new(HeaderProtectionKey::new(&AES_128, secret).expect("a secret of the length of a key"))
    }
}

/// The secret of one direction.
pub(super) struct AeadDirection(pub(super) Prk);

impl DirectionKeys for AeadDirection {
    fn id(&self, path: u64) -> ReceiverId {
        let (mut info, mut id) = ([0; 14], [0; 8]);
        let (label, number) = info.split_at_mut(6);
        label.copy_from_slice(b"rc3 id");
        number.copy_from_slice(&path.to_be_bytes());
        expand_into(&self.0, &info, &mut id);
        ReceiverId(id)
    }

    fn mask(&self) -> Box<dyn Mask> {
        let key = self.0.expand(&[b"rc3 hp"], &quic::AES_128).expect("hkdf can yield 16 bytes");
        Box::new(HeaderProtectionKey::from(key))
    }

    fn generation(&self) -> Box<dyn Generation> {
        Box::new(AeadGeneration::new(self.0.clone()))
    }

    fn decoy(&self) -> Box<dyn Generation> {
        let decoy = self.0.expand(&[b"rc3 decoy"], HKDF_SHA256).expect("hkdf can yield 32 bytes");
        Box::new(AeadGeneration::new(Prk::from(decoy)))
    }
}

impl Mask for HeaderProtectionKey {
    fn of(&self, sample: &[u8]) -> Option<[u8; 5]> {
        self.new_mask(sample).ok()
    }
}

/// The AEAD between two key updates.
pub(super) struct AeadGeneration {
    secret: Prk,
    key: LessSafeKey,
    pub(super) iv: Zeroizing<[u8; NONCE_LEN]>,
}

impl AeadGeneration {
    pub(super) fn new(secret: Prk) -> Self {
        let mut iv = Zeroizing::new([0; NONCE_LEN]);
        expand_into(&secret, b"rc3 iv", &mut *iv);
        let key = secret.expand(&[b"rc3 key"], &AES_128_GCM).expect("hkdf can yield 16 bytes");
        Self { key: LessSafeKey::new(UnboundKey::from(key)), iv, secret }
    }

    /// RFC 9001 §5.3.
    pub(super) fn nonce(&self, packet_number: u64) -> Nonce {
        let mut nonce = *self.iv;
        let (_, low) = nonce.split_at_mut(NONCE_LEN - size_of::<u64>());
        for (byte, number) in low.iter_mut().zip(packet_number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Generation for AeadGeneration {
    fn next(&self) -> Box<dyn Generation> {
        let secret = self.secret.expand(&[b"rc3 ku"], HKDF_SHA256).expect("hkdf can yield 32 bytes");
        Box::new(Self::new(Prk::from(secret)))
    }

    fn seal(&self, packet_number: u64, header: &[u8; HEADER_LEN], payload: &mut [u8]) -> [u8; TAG_LEN] {
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
}

/// HKDF-Expand (RFC 5869 §2.3) of as many bytes as `out` has.
pub(super) fn expand_into(secret: &Prk, info: &[u8], out: &mut [u8]) {
    struct Len(usize);
    impl hkdf::KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let infos = [info];
    let okm = secret.expand(&infos, Len(out.len())).expect("hkdf can yield a few bytes");
    okm.fill(out).expect("the length is the one asked for");
}
