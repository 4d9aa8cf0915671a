//! Connections without cryptography, so that a simulator spends its time on the network and not on AES.
//!
//! **Insecure.** Nothing is encrypted or authenticated, and servers are not verified. This is for programs whose
//! packets never leave the process; the feature `simulation` is off by default, and only the settings of this module
//! make such connections.
//!
//! Everything else is unchanged: datagrams have the lengths of protected ones and leave at the same times, also in the
//! handshake, which is that of TLS 1.3 without 0-RTT; the same ALPN names are agreed. Both ends must use this module:
//! the handshake with a TLS peer never completes.

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
        keys::{Limits, RlpKeys, SECRET_LEN, protection::Protection},
        tls::{ClientSecurity, ClientSession, ServerSecurity, early_limits::EarlyLimits, sessions::Sessions},
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

/// The RLP keys of a connection without cryptography, as either end has them, from its exported secrets
/// ([`EXPORTER_LABEL`](crate::internals::keys::EXPORTER_LABEL)), the client's first: for simulated peers that lie.
pub fn rlp_keys(secrets: [&[u8; SECRET_LEN]; 2], side_is_client: bool) -> RlpKeys {
    RlpKeys::protected(&Unprotected, secrets, side_is_client, Limits::default())
}

/// No security: only the application's ALPN names are negotiated.
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
    fn session(
        &self,
        rc3: bool,
        _: EarlyLimits,
    ) -> Result<Arc<dyn quinn_proto::crypto::ServerConfig>, ConfigError> {
        Ok(self.settings(rc3))
    }

    fn protection(&self) -> &'static dyn Protection {
        &Unprotected
    }
}
