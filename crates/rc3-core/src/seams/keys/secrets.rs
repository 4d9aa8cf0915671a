//! The source of an endpoint's secrets.

use zeroize::Zeroizing;

use super::aead::expand_into;
use crate::seams::cryptography::{
    hkdf::{HKDF_SHA256, Prk},
    rand::{SecureRandom, SystemRandom},
};

/// A sequence of secrets. None of them is ever printed.
#[derive(Debug)]
pub(crate) enum Secrets {
    System(SystemRandom),
    /// Repeatable: for simulations only.
    Seeded {
        seed: Prk,
        count: u64,
    },
}

impl Secrets {
    /// Random ones, or with `seed` always the same.
    pub(crate) fn new(seed: Option<[u8; 32]>) -> Self {
        match seed {
            None => Self::System(SystemRandom::new()),
            Some(seed) => Self::Seeded { seed: Prk::new_less_safe(HKDF_SHA256, &seed), count: 0 },
        }
    }

    /// The next one, wiped when dropped.
    ///
    /// # Panics
    /// When the system has no random numbers; there is no handshake without them either.
    pub(crate) fn next<const LEN: usize>(&mut self) -> Zeroizing<[u8; LEN]> {
        let mut secret = Zeroizing::new([0; LEN]);
        match self {
            Self::System(system) => system.fill(&mut *secret).expect("a system with random numbers"),
            Self::Seeded { seed, count } => {
                expand_into(seed, &count.to_be_bytes(), &mut *secret);
                *count += 1;
            }
        }
        secret
    }
}
