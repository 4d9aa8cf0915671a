//! The seam to the cryptography: seals and opens RLP datagrams (`docs/WIRE.md#protection`).
//!
//! Owns the keys of both directions, the packet numbers of the sending one (`sealer.rs`) and the replay window of the
//! receiving one (`opener.rs`). Invariant: no nonce is used twice with one key, and what fails to authenticate changes
//! nothing but a counter. Nothing here allocates for each packet. The only module of the RLP loop that knows `ring`:
//! `secret.rs` derives, `generation.rs` protects, `ids.rs` names
//! the receiver, `receipt.rs` shows who has received what, `early.rs` has what comes before the handshake is complete.

mod early;
mod generation;
mod ids;
mod opener;
mod receipt;
mod sealer;
mod secret;
mod secrets;
#[cfg(test)]
mod tests;

use ring::hkdf::{HKDF_SHA256, Prk};

use self::secret::Secret;
pub(crate) use self::secrets::Secrets;
pub use self::{
    ids::IdChange,
    opener::{OpenError, Opened, Opener},
    receipt::{RECEIPT_SECRET_LEN, ReceiptKey},
    sealer::{Sealer, Sealing},
};
#[cfg(feature = "simulation")]
use crate::simulation::tag::Tagger;
pub use crate::wire::header::{ReceiverId, receiver_id};

/// Label of the TLS exporter (RFC 8446 §7.5) that yields the secrets.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-rc3/1";
/// Context of the exporter for what the client sends.
pub const EXPORTER_CONTEXT_CLIENT: &[u8] = b"client";
/// Context of the exporter for what the server sends.
pub const EXPORTER_CONTEXT_SERVER: &[u8] = b"server";
/// Length of an exported secret in bytes.
pub const SECRET_LEN: usize = 32;

/// How far keys may be used. Only tests have a reason to deviate from the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Packets sealed with one key before the next is taken into use; at least 1.
    pub packets_per_key: u64,
    /// Datagrams that may fail to authenticate in the life of the connection.
    pub failures_max: u64,
}

impl Default for Limits {
    /// The confidentiality and the integrity limit of AEAD_AES_128_GCM (RFC 9001 §6.6).
    fn default() -> Self {
        Self { packets_per_key: 1 << 23, failures_max: 1 << 52 }
    }
}

/// Both directions of one connection.
#[derive(Debug)]
pub struct RlpKeys {
    /// Seals what we send.
    pub seal: Sealer,
    /// Opens what we receive.
    pub open: Opener,
}

impl RlpKeys {
    /// The keys from the two exported secrets; `side_is_client` says which of them is ours to send with.
    pub fn new(
        client_secret: &[u8; SECRET_LEN],
        server_secret: &[u8; SECRET_LEN],
        side_is_client: bool,
    ) -> Self {
        Self::with_limits(client_secret, server_secret, side_is_client, Limits::default())
    }

    /// As [`Self::new`], with other limits than those of the AEAD.
    pub fn with_limits(
        client_secret: &[u8; SECRET_LEN],
        server_secret: &[u8; SECRET_LEN],
        side_is_client: bool,
        limits: Limits,
    ) -> Self {
        let (local, remote) =
            if side_is_client { (client_secret, server_secret) } else { (server_secret, client_secret) };
        let secret = |bytes| Secret::Prk(Prk::new_less_safe(HKDF_SHA256, bytes));
        Self::of(&secret(local), &secret(remote), limits)
    }

    /// Keys that protect nothing, for simulations: datagrams have the same lengths, stray ones are refused, forged
    /// ones are not.
    #[cfg(feature = "simulation")]
    pub fn simulated(
        client_secret: &[u8; SECRET_LEN],
        server_secret: &[u8; SECRET_LEN],
        side_is_client: bool,
    ) -> Self {
        let [client, server] =
            [client_secret, server_secret].map(|bytes| Secret::Simulated(Tagger::new(bytes)));
        let (local, remote) = if side_is_client { (client, server) } else { (server, client) };
        Self::of(&local, &remote, Limits::default())
    }

    fn of(local: &Secret, remote: &Secret, limits: Limits) -> Self {
        Self { seal: Sealer::new(local, limits), open: Opener::new(remote, limits) }
    }
}
