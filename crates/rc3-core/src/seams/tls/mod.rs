//! The seam to TLS. Applications may pass rustls settings, or settings checked for QUIC under the names that quinn
//! uses. Connections get them in quinn-proto's form.

pub(crate) mod early_limits;
mod remembered;
pub(crate) mod replaced;
pub(crate) mod sessions;

use std::sync::Arc;

use quinn_proto as quic;
use thiserror::Error;

use self::{
    early_limits::{EarlyLimits, LimitedSessions},
    sessions::{ConnectionSessions, Sessions},
};
use super::keys::{Aead, protection::Protection};
use crate::{
    quic::{HandshakeTokenKey, HmacKey},
    wire::alpn,
};

/// Security of a client's connections: TLS, or what a simulator puts in its place ([`replaced`]).
pub(crate) trait ClientSecurity: Send + Sync {
    /// For one connection's session, which offers `rc3` or not, and may resume one of `sessions`.
    ///
    /// # Errors
    /// See [`ConfigError`].
    fn session(&self, rc3: bool, sessions: &Arc<Sessions>) -> Result<ClientSession, ConfigError>;

    /// The protection of its RLP datagrams.
    fn protection(&self) -> &'static dyn Protection;
}

/// The same for a server.
pub(crate) trait ServerSecurity: Send + Sync {
    /// For the sessions of its connections, which accept `rc3` or not, and early data within `limits`.
    ///
    /// # Errors
    /// See [`ConfigError`].
    fn session(
        &self,
        rc3: bool,
        limits: EarlyLimits,
    ) -> Result<Arc<dyn quic::crypto::ServerConfig>, ConfigError>;

    /// The protection of their RLP datagrams.
    fn protection(&self) -> &'static dyn Protection;
}

/// Security of one client connection.
pub(crate) struct ClientSession {
    pub(crate) crypto: Arc<dyn quic::crypto::ClientConfig>,
    /// The sessions it may resume, if it may use 0-RTT.
    pub(crate) tickets: Option<Arc<ConnectionSessions>>,
}

/// TLS settings of a client that are valid for QUIC.
///
/// For 0-RTT set [`rustls::ClientConfig::enable_early_data`]. rc3 then stores sessions itself, with
/// [`crate::ClientConfig`], and ignores the `resumption` of the rustls settings, because it must know which sessions
/// used rc3.
#[derive(Debug, Clone)]
pub struct QuicClientConfig(Arc<rustls::ClientConfig>);

/// TLS settings of a server that are valid for QUIC.
///
/// For 0-RTT set [`rustls::ServerConfig::max_early_data_size`] to `u32::MAX`; QUIC allows only that and 0.
#[derive(Debug, Clone)]
pub struct QuicServerConfig(Arc<rustls::ServerConfig>);

/// The crypto provider lacks `TLS13_AES_128_GCM_SHA256`, which QUIC's Initial packets need (RFC 9001 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no initial cipher suite found")]
pub struct NoInitialCipherSuite;

impl TryFrom<Arc<rustls::ClientConfig>> for QuicClientConfig {
    type Error = NoInitialCipherSuite;

    fn try_from(inner: Arc<rustls::ClientConfig>) -> Result<Self, NoInitialCipherSuite> {
        quic::crypto::rustls::QuicClientConfig::try_from(inner.clone()).map_err(|_| NoInitialCipherSuite)?;
        Ok(Self(inner))
    }
}

impl TryFrom<rustls::ClientConfig> for QuicClientConfig {
    type Error = NoInitialCipherSuite;

    fn try_from(inner: rustls::ClientConfig) -> Result<Self, NoInitialCipherSuite> {
        Arc::new(inner).try_into()
    }
}

impl TryFrom<Arc<rustls::ServerConfig>> for QuicServerConfig {
    type Error = NoInitialCipherSuite;

    fn try_from(inner: Arc<rustls::ServerConfig>) -> Result<Self, NoInitialCipherSuite> {
        quic::crypto::rustls::QuicServerConfig::try_from(inner.clone()).map_err(|_| NoInitialCipherSuite)?;
        Ok(Self(inner))
    }
}

impl TryFrom<rustls::ServerConfig> for QuicServerConfig {
    type Error = NoInitialCipherSuite;

    fn try_from(inner: rustls::ServerConfig) -> Result<Self, NoInitialCipherSuite> {
        Arc::new(inner).try_into()
    }
}

/// TLS settings of a client: [`rustls::ClientConfig`] or [`QuicClientConfig`].
pub trait ClientCrypto: sealed::Client {}

/// TLS settings of a server: [`rustls::ServerConfig`] or [`QuicServerConfig`].
pub trait ServerCrypto: sealed::Server {}

impl ClientCrypto for rustls::ClientConfig {}
impl ClientCrypto for QuicClientConfig {}
impl ServerCrypto for rustls::ServerConfig {}
impl ServerCrypto for QuicServerConfig {}

pub(crate) mod sealed {
    use std::sync::Arc;

    pub trait Client {
        fn into_rustls(self: Arc<Self>) -> Arc<rustls::ClientConfig>;
    }

    pub trait Server {
        fn into_rustls(self: Arc<Self>) -> Arc<rustls::ServerConfig>;
    }

    impl Client for rustls::ClientConfig {
        fn into_rustls(self: Arc<Self>) -> Arc<rustls::ClientConfig> {
            self
        }
    }

    impl Client for crate::seams::tls::QuicClientConfig {
        fn into_rustls(self: Arc<Self>) -> Arc<rustls::ClientConfig> {
            self.0.clone()
        }
    }

    impl Server for rustls::ServerConfig {
        fn into_rustls(self: Arc<Self>) -> Arc<rustls::ServerConfig> {
            self
        }
    }

    impl Server for crate::seams::tls::QuicServerConfig {
        fn into_rustls(self: Arc<Self>) -> Arc<rustls::ServerConfig> {
            self.0.clone()
        }
    }
}

/// Settings that QUIC or rc3 cannot use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// QUIC's Initial packets need it (RFC 9001 §5.2).
    #[error("the TLS configuration lacks TLS13_AES_128_GCM_SHA256; add it to the crypto provider")]
    NoInitialCipherSuite,
    /// QUIC needs TLS 1.3, and allows early data of any length or none (RFC 9001 §4.2, §4.6.1).
    #[error(
        "the TLS configuration is not for QUIC; enable TLS 1.3, set max_early_data_size to 0 or u32::MAX"
    )]
    NotForQuic,
    /// A number that QUIC does not allow.
    #[error("value out of bounds")]
    OutOfBounds,
    /// Others could guess shorter connection ids, and longer ones do not exist (RFC 9000 §5.1, §17.2).
    #[error("connection ids must have 8 to 20 bytes; use another generator of ids")]
    ConnectionIds,
    /// A port is divided among few workers.
    #[error("a port can have 1 to 64 workers; choose another number")]
    Workers,
}

impl ClientSecurity for rustls::ClientConfig {
    fn session(&self, rc3: bool, sessions: &Arc<Sessions>) -> Result<ClientSession, ConfigError> {
        let mut crypto = self.clone();
        crypto.alpn_protocols = alpn::offer(&crypto.alpn_protocols, rc3);
        let tickets = crypto.enable_early_data.then(|| {
            let tickets = Arc::new(ConnectionSessions::new(sessions.clone()));
            crypto.resumption = rustls::client::Resumption::store(tickets.clone());
            tickets
        });
        let crypto = quic::crypto::rustls::QuicClientConfig::try_from(crypto)
            .map_err(|_| ConfigError::NoInitialCipherSuite)?;
        Ok(ClientSession { crypto: Arc::new(crypto), tickets })
    }

    fn protection(&self) -> &'static dyn Protection {
        &Aead
    }
}

impl ServerSecurity for rustls::ServerConfig {
    fn session(
        &self,
        rc3: bool,
        limits: EarlyLimits,
    ) -> Result<Arc<dyn quic::crypto::ServerConfig>, ConfigError> {
        let mut crypto = self.clone();
        crypto.alpn_protocols = alpn::offer(&crypto.alpn_protocols, rc3);
        // With a ticketer rustls accepts no early data.
        if crypto.max_early_data_size > 0 {
            let store = crypto.session_storage.clone();
            crypto.session_storage = Arc::new(LimitedSessions { store, limits });
        }
        let crypto = Arc::new(crypto);
        // quinn-proto assumes that this succeeds for every client.
        rustls::quic::ServerConnection::new(crypto.clone(), rustls::quic::Version::V1, Vec::new())
            .map_err(|_| ConfigError::NotForQuic)?;
        let crypto = quic::crypto::rustls::QuicServerConfig::try_from(crypto)
            .map_err(|_| ConfigError::NoInitialCipherSuite)?;
        Ok(Arc::new(crypto))
    }

    fn protection(&self) -> &'static dyn Protection {
        &Aead
    }
}

/// A random key for tokens.
///
/// # Panics
/// When the system has no random numbers.
pub(crate) fn random_token_key() -> Arc<dyn HandshakeTokenKey> {
    let random = ring::rand::generate::<[u8; 32]>(&ring::rand::SystemRandom::new());
    let key = random.expect("the system has randomness").expose();
    Arc::new(ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &[]).extract(&key))
}

/// A random key for the division of a port among workers.
///
/// # Panics
/// When the system has no random numbers.
pub(crate) fn random_worker_key() -> [u8; 8] {
    let random = ring::rand::generate(&ring::rand::SystemRandom::new());
    random.expect("the system has randomness").expose()
}

/// A random key for the tokens in stateless resets.
///
/// # Panics
/// When the system has no random numbers.
pub(crate) fn random_reset_key() -> Arc<dyn HmacKey> {
    let random = ring::hmac::Key::generate(ring::hmac::HMAC_SHA256, &ring::rand::SystemRandom::new());
    Arc::new(random.expect("the system has randomness"))
}

pub(crate) fn ring_provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
