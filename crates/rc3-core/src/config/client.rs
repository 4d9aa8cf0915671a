//! What a client needs to connect.

use std::sync::Arc;

use super::{ID_BYTES_MAX, TransportConfig, random_id, setters};
use crate::{
    quic::{ConnectionId, TokenMemoryCache, TokenStore},
    seams::{
        cryptography::crypto_provider,
        tls::{ClientCrypto, ClientSecurity, sessions::Sessions},
    },
    shows::shows,
};

/// What a client needs to connect. Clones share the sessions and tokens that servers have given.
///
/// ```
/// use std::sync::Arc;
/// use rc3_core::{ClientConfig, TransportConfig};
/// use rustls::RootCertStore;
///
/// # let certificate = rcgen::generate_simple_self_signed(["example.org".to_string()])?.cert;
/// let mut roots = RootCertStore::empty();
/// roots.add(certificate.into())?;
/// let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
/// config.transport_config(Arc::new(TransportConfig::default()));
///
/// let nobody = Arc::new(RootCertStore::empty());
/// assert!(ClientConfig::with_root_certificates(nobody).is_err(), "no server could be trusted");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// For application protocols, client certificates or another verifier, start from rustls settings:
///
/// ```
/// use std::sync::Arc;
/// # let (mut crypto, _) = rc3_sim::identity::tls(&[]);
/// crypto.alpn_protocols = vec![b"example/1".to_vec()];
/// let config = rc3_core::ClientConfig::new(Arc::new(crypto));
/// # let _ = config;
/// ```
#[derive(Clone)]
pub struct ClientConfig {
    pub(crate) security: Arc<dyn ClientSecurity>,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) token_store: Arc<dyn TokenStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) initial_dst_cid_provider: Arc<dyn Fn() -> ConnectionId + Send + Sync>,
    pub(crate) version: u32,
}

impl ClientConfig {
    /// TLS 1.3 settings with default transport settings.
    ///
    /// `alpn_protocols` of the rustls settings has the application's own names; the rc3 variant of each is offered
    /// before it. With `enable_early_data`, sessions are stored here instead of in `resumption`.
    pub fn new(crypto: Arc<impl ClientCrypto + ?Sized>) -> Self {
        Self::over(Arc::new(crypto.into_rustls()))
    }

    pub(crate) fn over(security: Arc<dyn ClientSecurity>) -> Self {
        Self {
            security,
            transport: Arc::default(),
            token_store: Arc::new(TokenMemoryCache::default()),
            sessions: Arc::default(),
            initial_dst_cid_provider: Arc::new(|| random_id(ID_BYTES_MAX)),
            version: 1,
        }
    }

    /// Trusts servers whose certificates lead to `roots`, names no application protocol, and allows 0-RTT.
    ///
    /// # Errors
    /// [`VerifierBuilderError::NoRootAnchors`](rustls::client::VerifierBuilderError::NoRootAnchors) if `roots` is empty.
    pub fn with_root_certificates(
        roots: Arc<rustls::RootCertStore>,
    ) -> Result<Self, rustls::client::VerifierBuilderError> {
        let provider = crypto_provider();
        let verifier =
            rustls::client::WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build()?;
        let mut crypto = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3")
            .with_webpki_verifier(verifier)
            .with_no_client_auth();
        crypto.enable_early_data = true;
        Ok(Self::new(Arc::new(crypto)))
    }

    setters! {
        /// The first connection id of the server, for load balancers that route by it. It must have at least 8 bytes, which
        /// others cannot guess (RFC 9000 §7.2); connecting fails with a shorter one. Default: 20 random bytes.
        initial_dst_cid_provider: Arc<dyn Fn() -> ConnectionId + Send + Sync>;

        /// Replaces the transport settings.
        transport_config: Arc<TransportConfig> => transport = transport_config;

        /// The QUIC version to use, one of [`EndpointConfig::supported_versions`](crate::EndpointConfig::supported_versions).
        /// Default: 1.
        version: u32;

        /// Store for the tokens by which servers recognise an address (RFC 9000 §8.1.3). Default: in memory.
        token_store: Arc<dyn TokenStore>;
    }
}

shows!(ClientConfig: transport);
