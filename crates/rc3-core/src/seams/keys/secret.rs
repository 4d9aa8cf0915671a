//! What the keys of one direction are derived from, and what lasts as long as it: receiver id and header protection.

use ring::{
    aead::quic,
    hkdf::{self, HKDF_SHA256, Prk},
};

use super::{
    ReceiverId,
    generation::{AeadGeneration, Generation},
};
#[cfg(feature = "simulation")]
use crate::simulation::tag::Tagger;

/// What the keys of one direction are derived from.
#[derive(Clone)]
pub(super) enum Secret {
    Prk(Prk),
    #[cfg(feature = "simulation")]
    Simulated(Tagger),
}

impl Secret {
    /// The receiver id of the path with this number.
    pub(super) fn id(&self, path: u64) -> ReceiverId {
        match self {
            Self::Prk(secret) => {
                let (mut info, mut id) = ([0; 14], [0; 8]);
                let (label, number) = info.split_at_mut(6);
                label.copy_from_slice(b"rc3 id");
                number.copy_from_slice(&path.to_be_bytes());
                expand_into(secret, &info, &mut id);
                ReceiverId(id)
            }
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => {
                // Those below are for keys.
                const FIRST: u64 = 16;
                ReceiverId(tagger.derive(FIRST + path).key().to_be_bytes())
            }
        }
    }

    pub(super) fn mask(&self) -> Mask {
        match self {
            Self::Prk(secret) => {
                let key = secret.expand(&[b"rc3 hp"], &quic::AES_128).expect("hkdf can yield 16 bytes");
                Mask::Aes(Box::new(key.into()))
            }
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => Mask::Simulated,
        }
    }

    /// Keys that nobody seals with.
    pub(super) fn decoy(&self) -> Generation {
        match self {
            Self::Prk(secret) => {
                let decoy = secret.expand(&[b"rc3 decoy"], HKDF_SHA256).expect("hkdf can yield 32 bytes");
                Generation::Aead(Box::new(AeadGeneration::new(Prk::from(decoy))))
            }
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => Generation::Simulated(tagger.derive(0)),
        }
    }

    pub(super) fn generation(&self) -> Generation {
        match self {
            Self::Prk(secret) => Generation::Aead(Box::new(AeadGeneration::new(secret.clone()))),
            #[cfg(feature = "simulation")]
            Self::Simulated(tagger) => Generation::Simulated(*tagger),
        }
    }
}

/// Header protection.
pub(super) enum Mask {
    Aes(Box<quic::HeaderProtectionKey>),
    /// None: headers go in the clear.
    #[cfg(feature = "simulation")]
    Simulated,
}

impl Mask {
    pub(super) fn of(&self, sample: &[u8]) -> Option<[u8; 5]> {
        match self {
            Self::Aes(key) => key.new_mask(sample).ok(),
            #[cfg(feature = "simulation")]
            Self::Simulated => Some([0; 5]),
        }
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
