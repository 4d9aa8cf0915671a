//! A certificate made for one run, and a client that accepts only that certificate.
//!
//! No authority or name is checked: the ticket carries the certificate's fingerprint. The TLS provider checks the
//! handshake's signature, which proves that the peer has the certificate's key.

use std::{fmt::Display, sync::Arc};

use rc3_net::{
    EndpointConfig, HashedConnectionIdGenerator,
    crypto::{ResetKey, crypto_provider},
};
#[cfg(feature = "aws-lc-rs")]
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
#[cfg(not(feature = "aws-lc-rs"))]
use rustls::crypto::ring::sign::any_supported_type;
use rustls::{
    CertificateError, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
};
use zeroize::{Zeroize, Zeroizing};

use super::ticket::Fingerprint;
use crate::error::{Error, ErrorKind, Result};

/// The name in the certificate and in the handshake. Security does not depend on it.
pub const SERVER_NAME: &str = "rc3.invalid";

/// BLAKE3 context of [`Identity::reset_predecessor`].
const RESET_CONTEXT: &str = "rc3 2026 the stateless resets of one identity at one port";

/// A self-signed certificate with its key, which is wiped when dropped.
#[derive(Debug)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Zeroizing<PrivateKeyDer<'static>>,
}

/// Certificates and keys need random numbers.
pub(crate) fn failed(error: impl Display) -> Error {
    let hint = "check that the system provides random numbers (/dev/urandom)";
    Error::new(ErrorKind::Other, format!("cannot make or use a certificate: {error}"), hint)
}

impl Identity {
    /// A new identity.
    ///
    /// # Errors
    /// When the system provides no random numbers.
    pub fn generate() -> Result<Self> {
        let mut made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).map_err(failed)?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        made.signing_key.zeroize();
        Ok(Self::from_parts(made.cert.into(), key))
    }

    /// A certificate and its key from elsewhere.
    pub(crate) fn from_parts(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Self {
        Self { certificate, key: Zeroizing::new(key) }
    }

    /// The certificate's key.
    pub(crate) fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }

    /// Lets an endpoint at this port send the stateless resets of the process before it, so that peers learn at once that
    /// it is gone (RFC 9000 §10.3.2). The keys are others at each port: two listeners with the same ones could be made to
    /// end each other's connections (RFC 9000 §21.11).
    pub(crate) fn reset_predecessor(&self, port: u16, config: &mut EndpointConfig) {
        let mut hasher = blake3::Hasher::new_derive_key(RESET_CONTEXT);
        hasher.update(self.key.secret_der()).update(&port.to_be_bytes());
        let (mut key, mut ids) = ([0; 32], [0; 8]);
        let mut output = hasher.finalize_xof();
        output.fill(&mut key);
        output.fill(&mut ids);
        let ids = u64::from_be_bytes(ids);
        config.reset_key(Arc::new(ResetKey::new(&key)));
        config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
    }

    /// The certificate with its key, for TLS. The key is read in place, so that no copy of it stays behind.
    ///
    /// # Errors
    /// When the key is not one that the provider supports, or not that of the certificate.
    pub(crate) fn certified(&self) -> Result<Arc<SingleCertAndKey>> {
        let key = any_supported_type(&self.key).map_err(failed)?;
        let certified = CertifiedKey::new(vec![self.certificate.clone()], key);
        certified.keys_match().map_err(failed)?;
        Ok(Arc::new(certified.into()))
    }

    /// The fingerprint for the ticket.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// TLS configuration of the receiver for one application protocol.
    ///
    /// # Errors
    /// When the key does not fit the provider.
    pub fn server(&self, alpn: &[u8]) -> Result<rustls::ServerConfig> {
        self.server_for(WebPkiClientVerifier::no_client_auth(), alpn)
    }

    /// The same, with this verifier of the certificates of clients.
    ///
    /// # Errors
    /// When the key does not fit the provider.
    pub(crate) fn server_for(
        &self,
        clients: Arc<dyn ClientCertVerifier>,
        alpn: &[u8],
    ) -> Result<rustls::ServerConfig> {
        let mut config = rustls::ServerConfig::builder_with_provider(crypto_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(failed)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(self.certified()?);
        config.alpn_protocols = vec![alpn.to_vec()];
        config.key_log = Arc::new(rustls::KeyLogFile::new());
        Ok(config)
    }
}

/// TLS configuration of a client that accepts only the certificate with this fingerprint; with `None` it trusts nothing of
/// the server, and accepts any.
///
/// # Errors
/// When the provider does not support TLS 1.3.
pub fn client(fingerprint: Option<Fingerprint>, alpn: &[u8]) -> Result<rustls::ClientConfig> {
    let provider = crypto_provider();
    let algorithms = provider.signature_verification_algorithms;
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { fingerprint, algorithms }))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    config.key_log = Arc::new(rustls::KeyLogFile::new());
    Ok(config)
}

/// Trusts one certificate, or any.
#[derive(Debug)]
struct Pinned {
    fingerprint: Option<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.fingerprint.is_none_or(|pinned| Fingerprint::of(end_entity) == pinned) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(pinned: Option<Fingerprint>, shown: &Identity) -> bool {
        let algorithms = crypto_provider().signature_verification_algorithms;
        let verifier = Pinned { fingerprint: pinned, algorithms };
        let name = ServerName::try_from(SERVER_NAME).unwrap();
        verifier.verify_server_cert(&shown.certificate, &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn only_the_pinned_certificate_is_taken() {
        let (ours, theirs) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        assert!(verify(Some(ours.fingerprint()), &ours));
        assert!(!verify(Some(ours.fingerprint()), &theirs));
        assert!(verify(None, &theirs));
    }
}
