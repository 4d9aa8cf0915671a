//! The keys of what a client sends by RLP before the handshake is complete (docs/WIRE.md, early data).
//!
//! They come from a secret that the client draws and sends to the server in its 0-RTT data, since rustls has no early
//! exporter (RFC 8446 §7.5). So they are as good as 0-RTT data itself: no forward secrecy, and a flight can be replayed.

use std::sync::Arc;

use ring::hkdf::{HKDF_SHA256, Prk};

use super::{Limits, aead::AeadDirection, opener::Opener, protection::Direction, sealer::Sealer};
use crate::wire::control::EarlySecret;

/// What keeps this use of the secret apart from any other.
const INFO: &[u8] = b"rc3 early client";

impl EarlySecret {
    /// What the client seals with.
    pub fn sealer(&self) -> Sealer {
        Sealer::new(&self.direction(), Limits::default())
    }

    /// What the server opens with.
    pub fn opener(&self) -> Opener {
        Opener::new(&self.direction(), Limits::default())
    }

    /// The one direction there is.
    fn direction(&self) -> Arc<dyn Direction> {
        Arc::new(AeadDirection(self.prk()))
    }

    /// Its secret, in the place of one from the exporter.
    pub(super) fn prk(&self) -> Prk {
        let secret = Prk::new_less_safe(HKDF_SHA256, &self.0);
        let infos = [INFO];
        let direction = secret.expand(&infos, HKDF_SHA256).expect("hkdf can yield 32 bytes");
        Prk::from(direction)
    }
}
