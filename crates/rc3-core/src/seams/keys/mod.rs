//! The seam to the cryptography: seals and opens RLP datagrams (`docs/WIRE.md#protection`).
//!
//! Owns the keys of both directions, the packet numbers of the sending one (`sealer.rs`) and the replay window of the
//! receiving one (`opener.rs`). Invariant: no nonce is used twice with one key, and a datagram that fails to
//! authenticate changes only a counter. Nothing here allocates per packet. It is the only module of the RLP loop that
//! encrypts: `protection.rs` is the interface of protection, and `aead.rs` implements it; `ids.rs` has the receiver
//! ids, `receipt.rs` the receipts, `early.rs` the keys of early data.

mod aead;
mod early;
mod ids;
mod opener;
pub(crate) mod protection;
mod receipt;
mod sealer;
mod secrets;
#[cfg(test)]
mod tests;

pub use self::aead::Aead;
use self::protection::Protection;
pub(crate) use self::{
    ids::{FIRST_NUMBERS, IdChange},
    opener::{Opened, Opener},
    receipt::ReceiptKey,
    sealer::Sealing,
    secrets::Secrets,
};
pub use self::{opener::OpenError, receipt::RECEIPT_SECRET_LEN, sealer::Sealer};
pub(crate) use crate::wire::header::ReceiverId;
pub use crate::wire::header::receiver_id;

/// Label of the TLS exporter (RFC 8446 §7.5) that yields the secrets.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-rc3/1";
/// Context of the exporter for data from the client.
pub const EXPORTER_CONTEXT_CLIENT: &[u8] = b"client";
/// Context of the exporter for data from the server.
pub const EXPORTER_CONTEXT_SERVER: &[u8] = b"server";
/// Length of an exported secret in bytes.
pub const SECRET_LEN: usize = 32;

/// Both directions of one connection.
pub struct RlpKeys {
    /// Seals what we send.
    pub seal: Sealer,
    /// Opens what we receive.
    pub open: Opener,
}

impl RlpKeys {
    /// The keys from the two exported secrets, of which that of the client's direction comes first; `side_is_client`
    /// selects the one to send with.
    pub fn new(protection: &dyn Protection, secrets: [&[u8; SECRET_LEN]; 2], side_is_client: bool) -> Self {
        let [client, server] = secrets.map(|secret| protection.direction(secret));
        let (local, remote) = if side_is_client { (client, server) } else { (server, client) };
        Self { seal: Sealer::new(&local), open: Opener::new(&remote) }
    }
}
