//! The seam to TLS. Applications may pass rustls settings, or settings checked for QUIC under the names that quinn
//! uses. Connections get them in quinn-proto's form.

pub(crate) mod early_limits;
mod remembered;
pub(crate) mod replaced;
pub(crate) mod sessions;

use std::sync::Arc;

use quinn_proto as quic;
use rustls::quic::Suite;
use thiserror::Error;

use self::{
    early_limits::{EarlyLimits, LimitedSessions},
    sessions::{ConnectionSessions, Sessions},
};
use super::{
    cryptography::{ResetKey, TokenKey},
    keys::{Aead, Secrets, protection::Protection},
};
use crate::{
    quic::{HandshakeTokenKey, HmacKey},
    shows::shows,
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
    fn protection(&self) -> &'static dyn Protection {
        &Aead
    }
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
    fn protection(&self) -> &'static dyn Protection {
        &Aead
    }
}

/// Security of one client connection.
pub(crate) struct ClientSession {
    pub(crate) crypto: Arc<dyn quic::crypto::ClientConfig>,
    /// The sessions it may resume, if it may use 0-RTT.
    pub(crate) tickets: Option<Arc<ConnectionSessions>>,
}

/// The crypto provider lacks `TLS13_AES_128_GCM_SHA256`, which QUIC's Initial packets need (RFC 9001 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no initial cipher suite found")]
pub struct NoInitialCipherSuite;

/// Settings of rustls that are checked for QUIC, and the trait that they and unchecked ones have.
macro_rules! checked_settings {
    ($(#[$doc:meta])* $checked:ident, $(#[$trait_doc:meta])* $settings:ident, $rustls:ty) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $checked {
            settings: Arc<$rustls>,
            initial: Option<Suite>,
        }

        impl $checked {
            /// With this cipher for Initial packets, so that TLS need not offer it.
            ///
            /// # Errors
            /// [`NoInitialCipherSuite`] if it is not `TLS13_AES_128_GCM_SHA256`.
            pub fn with_initial(settings: Arc<$rustls>, initial: Suite) -> Result<Self, NoInitialCipherSuite> {
                quic::crypto::rustls::$checked::with_initial(settings.clone(), initial)
                    .map_err(|_| NoInitialCipherSuite)?;
                Ok(Self { settings, initial: Some(initial) })
            }
        }

        shows!($checked: settings);

        impl TryFrom<Arc<$rustls>> for $checked {
            type Error = NoInitialCipherSuite;

            fn try_from(settings: Arc<$rustls>) -> Result<Self, NoInitialCipherSuite> {
                quic::crypto::rustls::$checked::try_from(settings.clone()).map_err(|_| NoInitialCipherSuite)?;
                Ok(Self { settings, initial: None })
            }
        }

        impl TryFrom<$rustls> for $checked {
            type Error = NoInitialCipherSuite;

            fn try_from(inner: $rustls) -> Result<Self, NoInitialCipherSuite> {
                Arc::new(inner).try_into()
            }
        }

        $(#[$trait_doc])*
        pub trait $settings {
            /// The settings as rustls has them, and the cipher of Initial packets if it is not one of theirs.
            #[doc(hidden)]
            fn into_rustls(self: Arc<Self>) -> (Arc<$rustls>, Option<Suite>);
        }

        impl $settings for $rustls {
            fn into_rustls(self: Arc<Self>) -> (Arc<$rustls>, Option<Suite>) {
                (self, None)
            }
        }

        impl $settings for $checked {
            fn into_rustls(self: Arc<Self>) -> (Arc<$rustls>, Option<Suite>) {
                (self.settings.clone(), self.initial)
            }
        }
    };
}

checked_settings!(
    /// TLS settings of a client that are valid for QUIC.
    ///
    /// For 0-RTT set [`rustls::ClientConfig::enable_early_data`]. rc3 then stores sessions itself, with
    /// [`crate::ClientConfig`], and ignores the `resumption` of the rustls settings, because it must know which sessions
    /// used rc3.
    QuicClientConfig,
    /// TLS settings of a client: [`rustls::ClientConfig`] or [`QuicClientConfig`].
    ClientCrypto,
    rustls::ClientConfig
);
checked_settings!(
    /// TLS settings of a server that are valid for QUIC.
    ///
    /// For 0-RTT set [`rustls::ServerConfig::max_early_data_size`] to `u32::MAX`; QUIC allows only that and 0.
    QuicServerConfig,
    /// TLS settings of a server: [`rustls::ServerConfig`] or [`QuicServerConfig`].
    ServerCrypto,
    rustls::ServerConfig
);

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

impl ClientSecurity for (Arc<rustls::ClientConfig>, Option<Suite>) {
    fn session(&self, rc3: bool, sessions: &Arc<Sessions>) -> Result<ClientSession, ConfigError> {
        let (settings, initial) = self;
        let mut crypto = rustls::ClientConfig::clone(settings);
        crypto.alpn_protocols = alpn::offer(&crypto.alpn_protocols, rc3);
        let tickets = crypto.enable_early_data.then(|| {
            let tickets = Arc::new(ConnectionSessions::new(sessions.clone()));
            crypto.resumption = rustls::client::Resumption::store(tickets.clone());
            tickets
        });
        let crypto = match initial {
            Some(initial) => quic::crypto::rustls::QuicClientConfig::with_initial(Arc::new(crypto), *initial),
            None => crypto.try_into(),
        };
        let crypto = crypto.map_err(|_| ConfigError::NoInitialCipherSuite)?;
        Ok(ClientSession { crypto: Arc::new(crypto), tickets })
    }
}

impl ServerSecurity for (Arc<rustls::ServerConfig>, Option<Suite>) {
    fn session(
        &self,
        rc3: bool,
        limits: EarlyLimits,
    ) -> Result<Arc<dyn quic::crypto::ServerConfig>, ConfigError> {
        let (settings, initial) = self;
        let mut crypto = rustls::ServerConfig::clone(settings);
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
        let crypto = match initial {
            Some(initial) => quic::crypto::rustls::QuicServerConfig::with_initial(crypto, *initial),
            None => crypto.try_into(),
        };
        let crypto = crypto.map_err(|_| ConfigError::NoInitialCipherSuite)?;
        Ok(Arc::new(crypto))
    }
}

/// Random bytes.
///
/// # Panics
/// When the system has no random numbers.
pub(crate) fn random<const LEN: usize>() -> [u8; LEN] {
    *Secrets::new(None).next()
}

/// A random key for tokens.
///
/// # Panics
/// As [`random`].
pub(crate) fn random_token_key() -> Arc<dyn HandshakeTokenKey> {
    Arc::new(TokenKey::new(&random()))
}

/// A random key for the tokens in stateless resets.
///
/// # Panics
/// As [`random`].
pub(crate) fn random_reset_key() -> Arc<dyn HmacKey> {
    Arc::new(ResetKey::new(&random()))
}
