//! What a server needs to accept.

use std::{
    net::{SocketAddrV4, SocketAddrV6},
    sync::Arc,
    time::Duration,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{Passthrough, TransportConfig, passed_to, setters, transport::TIME_MAX};
use crate::{
    quic::{HandshakeTokenKey, QuicServer, TimeSource, ValidationTokenConfig},
    seams::{
        cryptography::crypto_provider,
        tls::{ServerCrypto, ServerSecurity, random_token_key},
    },
    shows::shows,
};

/// What an endpoint needs to accept connections.
///
/// ```
/// use rc3_core::{Endpoint, ServerConfig};
/// use rustls::pki_types::{CertificateDer, PrivateKeyDer};
///
/// # let certified = rcgen::generate_simple_self_signed(["example.org".to_string()])?;
/// # let chain: Vec<CertificateDer<'static>> = vec![certified.cert.into()];
/// # let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
/// let mut config = ServerConfig::with_single_cert(chain, key)?;
/// // Every client validates its address by a Retry, and at most 100 handshakes wait for an answer.
/// config.retry_incoming_from(0).max_incoming(100);
/// let endpoint = Endpoint::new(Some(&config), None)?;
/// assert_eq!(endpoint.incoming_stats().waiting, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ServerConfig {
    /// Configuration of the connections it accepts.
    pub transport: Arc<TransportConfig>,
    pub(crate) security: Arc<dyn ServerSecurity>,
    pub(crate) token_key: Arc<dyn HandshakeTokenKey>,
    /// How it issues and accepts tokens by which returning clients validate their address (RFC 9000 §8.1.3).
    pub validation_token: ValidationTokenConfig,
    pub(crate) max_incoming: usize,
    pub(crate) retry_incoming_from: usize,
    pub(crate) incoming_buffer_size_total: u64,
    pub(crate) passed: Passthrough<QuicServer>,
}

impl ServerConfig {
    /// As [`Self::with_crypto`], with this [`Self::token_key`].
    pub fn new(crypto: Arc<impl ServerCrypto + ?Sized>, token_key: Arc<dyn HandshakeTokenKey>) -> Self {
        Self::over(Arc::new(crypto.into_rustls()), token_key)
    }

    /// TLS 1.3 settings with default transport settings; for ALPN see [`crate::ClientConfig::new`].
    pub fn with_crypto(crypto: Arc<impl ServerCrypto + ?Sized>) -> Self {
        Self::over(Arc::new(crypto.into_rustls()), random_token_key())
    }

    pub(crate) fn over(security: Arc<dyn ServerSecurity>, token_key: Arc<dyn HandshakeTokenKey>) -> Self {
        Self {
            transport: Arc::default(),
            security,
            token_key,
            validation_token: ValidationTokenConfig::default(),
            // Some 4 KB each: at most 16 MB wait for a server that is slow to accept.
            max_incoming: 4096,
            retry_incoming_from: 512,
            incoming_buffer_size_total: 32 << 20,
            passed: Vec::new(),
        }
    }

    /// Uses this certificate chain, requests none from clients, offers no application protocol, and allows 0-RTT.
    ///
    /// # Errors
    /// [`rustls::Error::InconsistentKeys`] if the key does not belong to the certificate, otherwise the
    /// [`rustls::Error`] that names what is wrong with the key or the chain.
    pub fn with_single_cert(
        cert_chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let mut crypto = rustls::ServerConfig::builder_with_provider(crypto_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(cert_chain, key)?;
        crypto.max_early_data_size = u32::MAX;
        Ok(Self::with_crypto(Arc::new(crypto)))
    }

    setters! {
        /// Replaces the transport settings.
        transport_config: Arc<TransportConfig> => transport = transport_config;

        /// Tokens by which returning clients validate their address (RFC 9000 §8.1.3).
        validation_token_config: ValidationTokenConfig => validation_token = validation_token_config;

        /// Handshakes that may wait for an answer at once; more are refused. Default 4096.
        max_incoming: usize;

        /// While this many handshakes wait for an answer, each new client must validate its address by a Retry packet (RFC
        /// 9000 §8.1.2), which costs it a round trip and the server no memory. So a flood from forged addresses takes at
        /// most this many places. Default 512; 0 validates every client.
        retry_incoming_from: usize;

        /// Bytes of datagrams stored for all handshakes that wait for an answer. Default 32 MiB.
        incoming_buffer_size_total: u64;

        /// The key that seals tokens for clients. Default: a random one; servers that share clients must share it.
        token_key: Arc<dyn HandshakeTokenKey>;
    }

    passed_to! { QuicServer:
        /// Whether clients may change their address. Default: yes.
        migration: bool;

        /// Bytes of datagrams stored for one handshake that waits for an answer. Default 1 MiB.
        incoming_buffer_size: u64;

        /// How long the token of a Retry packet is valid, at most a day. Default 15 s.
        retry_token_lifetime: Duration => retry_token_lifetime.min(TIME_MAX);

        /// The clock by which tokens expire. Default: the system's.
        time_source: Arc<dyn TimeSource>;

        /// An IPv4 address clients are asked to move to after the handshake (RFC 9000 §9.6).
        preferred_address_v4: Option<SocketAddrV4>;

        /// An IPv6 address clients are asked to move to after the handshake (RFC 9000 §9.6).
        preferred_address_v6: Option<SocketAddrV6>;
    }
}

shows!(ServerConfig: transport);
