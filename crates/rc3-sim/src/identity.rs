//! A self-signed certificate and TLS settings that trust it, or no cryptography at all: enough for the endpoints of one
//! world.

use std::sync::Arc;

use rc3_core::{ClientConfig, ServerConfig};
use rustls::{
    NamedGroup,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer},
};

use crate::insecure;

/// The name servers of a simulated world call themselves.
pub const SERVER_NAME: &str = "rc3.test";

/// What the connections of a world are secured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Crypto {
    /// TLS 1.3, as in a real network. Servers give out session tickets, and 0-RTT is allowed.
    #[default]
    Tls,
    /// Nothing, see [`crate::insecure`]: flows take the same time, computing them takes much less.
    None,
}

impl Crypto {
    /// Client and server settings that belong together; `alpn` are the application's protocol names.
    ///
    /// # Panics
    /// When the cryptography refuses to make a certificate.
    pub fn identity(self, alpn: &[&str]) -> (ClientConfig, ServerConfig) {
        match self {
            Self::Tls => identity(alpn),
            Self::None => (insecure::client_config(alpn), insecure::server_config(alpn)),
        }
    }
}

/// Client and server settings that belong together; `alpn` are the application's protocol names.
///
/// # Panics
/// When the cryptography refuses to make a certificate.
pub fn identity(alpn: &[&str]) -> (ClientConfig, ServerConfig) {
    let (client, server) = tls(alpn);
    (ClientConfig::new(Arc::new(client)), ServerConfig::with_crypto(Arc::new(server)))
}

/// The same as plain rustls settings. They allow 0-RTT.
///
/// Never with post-quantum key exchange, so that a world sends the same packets with every provider of cryptography;
/// [`tls_with`] takes what the provider prefers.
///
/// # Panics
/// When the cryptography refuses to make a certificate.
pub fn tls(alpn: &[&str]) -> (rustls::ClientConfig, rustls::ServerConfig) {
    let mut provider = CryptoProvider::clone(&rc3_core::crypto_provider());
    provider.kx_groups.retain(|group| group.name() != NamedGroup::X25519MLKEM768);
    tls_with(Arc::new(provider), alpn, 0)
}

/// The same with this provider, and a certificate of at least this many bytes: further names make it longer.
///
/// # Panics
/// When the cryptography refuses to make a certificate.
pub fn tls_with(
    provider: Arc<CryptoProvider>,
    alpn: &[&str],
    certificate_bytes: usize,
) -> (rustls::ClientConfig, rustls::ServerConfig) {
    let alpn: Vec<Vec<u8>> = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let names = (0..certificate_bytes / 64).map(|nth| format!("{nth:0>56}.{SERVER_NAME}"));
    let names: Vec<_> = [SERVER_NAME.to_owned()].into_iter().chain(names).collect();
    let certified = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let certificate: CertificateDer<'static> = certified.cert.into();
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate just made");
    let versions = &[&rustls::version::TLS13];

    let mut client = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols.clone_from(&alpn);
    client.enable_early_data = true;
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a key just made");
    server.alpn_protocols = alpn;
    server.max_early_data_size = u32::MAX;
    (client, server)
}
