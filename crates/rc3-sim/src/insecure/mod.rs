//! Connections without cryptography, so that a simulator spends its time on the network and not on AES.
//!
//! **Insecure.** Nothing is encrypted or authenticated, and servers are not verified. This is for programs whose
//! packets never leave the process, and only the settings of this module make such connections.
//!
//! Everything else is unchanged: datagrams have the lengths of protected ones and leave at the same times, also in the
//! handshake, which is that of TLS 1.3 without 0-RTT; the same ALPN names are agreed. Both ends must use this module:
//! the handshake with a TLS peer never completes.

mod crypto;
mod rlp;
mod tag;

use std::sync::Arc;

use rc3_core::{
    ClientConfig, ServerConfig,
    internals::{
        keys::{RlpKeys, SECRET_LEN},
        security::{self, Replacement},
    },
};

use self::{
    crypto::{CryptoSettings, TokenKey},
    rlp::Unprotected,
};

/// Settings of a client without cryptography and with default transport settings; `alpn` are the application's own
/// names, as in [`ClientConfig::new`].
pub fn client_config(alpn: &[&str]) -> ClientConfig {
    security::client_config(Replacement {
        sessions: |offer| Arc::new(CryptoSettings::new(offer)),
        protection: &Unprotected,
        alpn: names(alpn),
    })
}

/// Settings of a server for such clients; for `alpn` see [`ClientConfig::new`].
pub fn server_config(alpn: &[&str]) -> ServerConfig {
    let replacement = Replacement::<dyn quinn_proto::crypto::ServerConfig> {
        sessions: |offer| Arc::new(CryptoSettings::new(offer)),
        protection: &Unprotected,
        alpn: names(alpn),
    };
    security::server_config(replacement, Arc::new(TokenKey))
}

/// The RLP keys of a connection without cryptography, as either end has them, from its exported secrets
/// ([`EXPORTER_LABEL`](rc3_core::internals::keys::EXPORTER_LABEL)), the client's first: for simulated peers that lie.
pub fn rlp_keys(secrets: [&[u8; SECRET_LEN]; 2], side_is_client: bool) -> RlpKeys {
    RlpKeys::new(&Unprotected, secrets, side_is_client)
}

fn names(alpn: &[&str]) -> Vec<Vec<u8>> {
    alpn.iter().map(|name| name.as_bytes().to_vec()).collect()
}
