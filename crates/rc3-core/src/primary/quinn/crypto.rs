//! TLS settings in the two forms an application may have them: as rustls has them, or checked for QUIC, under the
//! names programs written for quinn use.

use std::sync::Arc;

use quinn_proto::crypto::rustls as quic;
use thiserror::Error;

/// What a client's sessions are made of.
#[derive(Clone)]
pub(crate) enum ClientTls {
    Rustls(Arc<rustls::ClientConfig>),
    /// No cryptography; the application's ALPN names.
    #[cfg(feature = "simulation")]
    Simulated(Arc<[Vec<u8>]>),
}

/// The same for a server.
#[derive(Clone)]
pub(crate) enum ServerTls {
    Rustls(Arc<rustls::ServerConfig>),
    #[cfg(feature = "simulation")]
    Simulated(Arc<[Vec<u8>]>),
}

/// TLS settings of a client that QUIC can work with.
///
/// For 0-RTT set [`rustls::ClientConfig::enable_early_data`]. rc3 then remembers sessions itself, beside
/// [`crate::ClientConfig`], and leaves the `resumption` of the rustls settings alone: it must know which of them
/// spoke rc3.
#[derive(Debug, Clone)]
pub struct QuicClientConfig(Arc<rustls::ClientConfig>);

/// TLS settings of a server that QUIC can work with.
///
/// For 0-RTT set [`rustls::ServerConfig::max_early_data_size`] to `u32::MAX`; QUIC knows only that and 0.
#[derive(Debug, Clone)]
pub struct QuicServerConfig(Arc<rustls::ServerConfig>);

/// The crypto provider lacks `TLS13_AES_128_GCM_SHA256`, which QUIC's Initial packets need (RFC 9001 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no initial cipher suite found")]
pub struct NoInitialCipherSuite;

impl TryFrom<Arc<rustls::ClientConfig>> for QuicClientConfig {
    type Error = NoInitialCipherSuite;

    fn try_from(inner: Arc<rustls::ClientConfig>) -> Result<Self, NoInitialCipherSuite> {
        quic::QuicClientConfig::try_from(inner.clone()).map_err(|_| NoInitialCipherSuite)?;
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
        quic::QuicServerConfig::try_from(inner.clone()).map_err(|_| NoInitialCipherSuite)?;
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

    impl Client for super::QuicClientConfig {
        fn into_rustls(self: Arc<Self>) -> Arc<rustls::ClientConfig> {
            self.0.clone()
        }
    }

    impl Server for rustls::ServerConfig {
        fn into_rustls(self: Arc<Self>) -> Arc<rustls::ServerConfig> {
            self
        }
    }

    impl Server for super::QuicServerConfig {
        fn into_rustls(self: Arc<Self>) -> Arc<rustls::ServerConfig> {
            self.0.clone()
        }
    }
}
