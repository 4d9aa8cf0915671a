//! TLS in which both sides show a certificate.
//!
//! The client accepts one certificate. The server accepts any, because TLS proves only that the client has the key: the
//! application then looks up the [`peer`]'s fingerprint. Nothing is resumed and there is no 0-RTT, so every connection
//! proves both keys again and a replayed packet opens nothing.

use std::sync::Arc;

use rc3_net::{Connection, crypto::crypto_provider};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::{Resumption, danger::HandshakeSignatureValid},
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::{
        NoServerSessionStorage,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use crate::{
    error,
    transfer::{
        identity::{self, Identity},
        ticket::Fingerprint,
    },
};

/// TLS configuration of the side that listens.
///
/// # Errors
/// When the key does not fit the provider.
pub fn server(identity: &Identity, alpn: &[u8]) -> error::Result<ServerConfig> {
    let algorithms = crypto_provider().signature_verification_algorithms;
    let mut config = identity.server_for(Arc::new(AnyIdentity { algorithms }), alpn)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// TLS configuration of a client that accepts only the certificate with this fingerprint.
///
/// # Errors
/// When the key does not fit the provider.
pub fn client(identity: &Identity, fingerprint: Fingerprint, alpn: &[u8]) -> error::Result<ClientConfig> {
    let mut config = identity::client(Some(fingerprint), alpn)?;
    config.client_auth_cert_resolver = identity.certified()?;
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The fingerprint of the certificate that the peer of a connection has shown; `None` if it has shown none.
pub fn peer(connection: &Connection) -> Option<Fingerprint> {
    let certificates = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    certificates.first().map(|certificate| Fingerprint::of(certificate))
}

/// Requires a certificate, whichever it is. Its signature proves that the client has the key.
#[derive(Debug)]
struct AnyIdentity {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyIdentity {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
