//! Sessions that replace those of TLS: for simulators, which spend their time on the network and not on AES.

use std::sync::Arc;

use quinn_proto::crypto;

use super::{
    ClientSecurity, ClientSession, ConfigError, ServerSecurity, early_limits::EarlyLimits, sessions::Sessions,
};
use crate::{seams::keys::protection::Protection, wire::alpn};

/// What replaces TLS and the AEAD on one side.
pub struct Replacement<S: ?Sized> {
    /// Makes the settings of sessions that negotiate one of these ALPN names, the preferred first.
    pub sessions: fn(Vec<Vec<u8>>) -> Arc<S>,
    /// The protection of RLP datagrams.
    pub protection: &'static dyn Protection,
    /// The application's own ALPN names.
    pub alpn: Vec<Vec<u8>>,
}

impl ClientSecurity for Replacement<dyn crypto::ClientConfig> {
    fn session(&self, rc3: bool, _: &Arc<Sessions>) -> Result<ClientSession, ConfigError> {
        Ok(ClientSession { crypto: (self.sessions)(alpn::offer(&self.alpn, rc3)), tickets: None })
    }

    fn protection(&self) -> &'static dyn Protection {
        self.protection
    }
}

impl ServerSecurity for Replacement<dyn crypto::ServerConfig> {
    fn session(&self, rc3: bool, _: EarlyLimits) -> Result<Arc<dyn crypto::ServerConfig>, ConfigError> {
        Ok((self.sessions)(alpn::offer(&self.alpn, rc3)))
    }

    fn protection(&self) -> &'static dyn Protection {
        self.protection
    }
}
