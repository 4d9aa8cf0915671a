//! What examples and tests on one machine need to trust each other.
#![allow(dead_code, reason = "no program uses all of it")]

use std::{error::Error, sync::Arc};

use rc3_adapters::rc3_h3::rc3_net::rustls::{
    self, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer},
};

/// Settings of TLS for `localhost`, and a client's that trust them.
pub(crate) struct Identity {
    pub(crate) client: rustls::ClientConfig,
    pub(crate) server: rustls::ServerConfig,
    /// The certificate as PEM, for clients of other languages.
    pub(crate) pem: String,
    /// Its key as PEM, for servers of other languages.
    pub(crate) key_pem: String,
}

impl Identity {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
        let (pem, key_pem) = (certified.cert.pem(), certified.signing_key.serialize_pem());
        let certificate = CertificateDer::from(certified.cert);
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut client = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        for alpn in [&mut client.alpn_protocols, &mut server.alpn_protocols] {
            *alpn = vec![rc3_adapters::rc3_h3::ALPN.to_vec()];
        }
        Ok(Self { client, server, pem, key_pem })
    }
}
