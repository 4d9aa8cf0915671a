//! Connections without cryptography, so that a simulator spends its time on the network and not on AES.
//!
//! **Insecure.** Nothing is encrypted or authenticated, and servers are believed to be who they say they are. This is
//! for machines whose packets never leave the process; the feature `simulation` is off by default, and no connection
//! is made this way but with the settings of this module.
//!
//! Everything else is as it would be: the datagrams have the lengths of protected ones and leave at the same times,
//! those of the handshake as well, which is that of TLS 1.3 without 0-RTT; the same ALPN names are agreed. Both ends
//! must be made by this module: with a peer that speaks TLS the handshake never gets anywhere.

pub(crate) mod tag;

use std::sync::Arc;

/// What an endpoint's own timers are kept in.
pub use crate::structures::tournament::Tournament;

use crate::{
    ClientConfig, ServerConfig,
    seams::primary::quinn::{ClientTls, ServerTls, simulated::TokenKey},
};

/// Settings of a client without cryptography and with default transport settings; `alpn` are the application's own
/// names, as in [`ClientConfig::new`].
pub fn client_config(alpn: &[&str]) -> ClientConfig {
    ClientConfig::over(ClientTls::Simulated(names(alpn)))
}

/// Settings of a server for such clients; for `alpn` see [`ClientConfig::new`].
pub fn server_config(alpn: &[&str]) -> ServerConfig {
    ServerConfig::over(ServerTls::Simulated(names(alpn)), Arc::new(TokenKey))
}

fn names(alpn: &[&str]) -> Arc<[Vec<u8>]> {
    alpn.iter().map(|name| name.as_bytes().to_vec()).collect()
}
