//! Connections without cryptography, so that a simulator spends its time on the network and not on AES.
//!
//! **Insecure.** Nothing is encrypted or authenticated, and servers are believed to be who they say they are. This is
//! for machines whose packets never leave the process; the feature `simulation` is off by default, and no connection
//! is made this way but with the settings of this module.
//!
//! Everything else is as it would be: the datagrams have the lengths of protected ones and leave at the same times,
//! those of the handshake as well, which is that of TLS 1.3 without 0-RTT; the same ALPN names are agreed. Both ends
//! must be made by this module: with a peer that speaks TLS the handshake never gets anywhere.

mod crypto;
mod rlp;
mod tag;

use std::sync::Arc;

use self::{
    crypto::{Settings, TokenKey},
    rlp::Unprotected,
};
use crate::{
    ClientConfig, ConfigError, ServerConfig,
    seams::{
        keys::protection::Protection,
        tls::{ClientSecurity, ClientSession, ServerSecurity, sessions::Sessions},
    },
    wire::alpn,
};

/// Settings of a client without cryptography and with default transport settings; `alpn` are the application's own
/// names, as in [`ClientConfig::new`].
pub fn client_config(alpn: &[&str]) -> ClientConfig {
    ClientConfig::over(Arc::new(Insecure::new(alpn)))
}

/// Settings of a server for such clients; for `alpn` see [`ClientConfig::new`].
pub fn server_config(alpn: &[&str]) -> ServerConfig {
    ServerConfig::over(Arc::new(Insecure::new(alpn)), Arc::new(TokenKey))
}

/// No security: the application's ALPN names are all there is to agree on.
struct Insecure(Vec<Vec<u8>>);

impl Insecure {
    fn new(alpn: &[&str]) -> Self {
        Self(alpn.iter().map(|name| name.as_bytes().to_vec()).collect())
    }

    fn settings(&self, rc3: bool) -> Arc<Settings> {
        Arc::new(Settings::new(alpn::offer(&self.0, rc3)))
    }
}

impl ClientSecurity for Insecure {
    fn session(&self, rc3: bool, _: &Arc<Sessions>) -> Result<ClientSession, ConfigError> {
        Ok(ClientSession { crypto: self.settings(rc3), tickets: None })
    }

    fn protection(&self) -> &'static dyn Protection {
        &Unprotected
    }
}

impl ServerSecurity for Insecure {
    fn session(&self, rc3: bool) -> Result<Arc<dyn quinn_proto::crypto::ServerConfig>, ConfigError> {
        Ok(self.settings(rc3))
    }

    fn protection(&self) -> &'static dyn Protection {
        &Unprotected
    }
}
