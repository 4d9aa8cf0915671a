//! The keys of RLP data that a client sends before the handshake is complete (docs/WIRE.md, early data).
//!
//! They come from a secret that the client draws and sends to the server in its 0-RTT data, since rustls has no early
//! exporter (RFC 8446 §7.5). So they have the properties of 0-RTT data: no forward secrecy, and a flight can be
//! replayed.

use std::sync::Arc;

use super::{aead::AeadDirection, opener::Opener, protection::DirectionKeys, sealer::Sealer};
use crate::{
    seams::cryptography::hkdf::{HKDF_SHA256, Prk},
    wire::control::EarlySecret,
};

/// Separates this use of the secret from any other.
const INFO: &[u8] = b"rc3 early client";

impl EarlySecret {
    /// The client's sealer.
    pub fn sealer(&self) -> Sealer {
        Sealer::new(&self.direction())
    }

    /// The server's opener.
    pub fn opener(&self) -> Opener {
        Opener::new(&self.direction())
    }

    /// The only direction.
    fn direction(&self) -> Arc<dyn DirectionKeys> {
        Arc::new(AeadDirection(self.prk()))
    }

    /// Its secret, instead of one from the exporter.
    pub(super) fn prk(&self) -> Prk {
        let secret = Prk::new_less_safe(HKDF_SHA256, &*self.0);
        let infos = [INFO];
        let direction = secret.expand(&infos, HKDF_SHA256).expect("hkdf can yield 32 bytes");
        Prk::from(direction)
    }
}
