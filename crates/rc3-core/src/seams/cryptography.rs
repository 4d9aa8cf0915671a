//! The library of cryptography of this build: aws-lc-rs where the feature of that name is on, otherwise ring. Nothing else
//! in this crate names either. Both have one interface, and the same secrets give the same bytes.

use std::sync::Arc;

#[cfg(feature = "aws-lc-rs")]
use aws_lc_rs as library;
use library::hmac;
pub(crate) use library::{aead, hkdf, rand};
#[cfg(not(feature = "aws-lc-rs"))]
use ring as library;
use rustls::crypto::CryptoProvider;
#[cfg(feature = "aws-lc-rs")]
use rustls::crypto::aws_lc_rs as tls;
#[cfg(not(feature = "aws-lc-rs"))]
use rustls::crypto::ring as tls;

use crate::quic::{AeadKey, CryptoError, HandshakeTokenKey, HmacKey};

/// The cryptography of this build, for settings of rustls: that of aws-lc-rs, which prefers X25519MLKEM768, where the
/// feature `aws-lc-rs` is on, otherwise that of ring.
///
/// rustls' own `builder()` cannot choose where both features are on; `builder_with_provider` takes this one.
pub fn crypto_provider() -> Arc<CryptoProvider> {
    Arc::new(tls::default_provider())
}

/// A key for the tokens in stateless resets (RFC 9000 §10.3.2): HMAC with SHA-256.
///
/// quinn-proto has its traits on types of ring or of aws-lc-rs, depending on features that any package of a program may
/// turn on. This type has them always.
#[derive(Debug)]
pub struct ResetKey(hmac::Key);

impl ResetKey {
    /// The key with these bytes, which others must not be able to guess.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }
}

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        out.copy_from_slice(hmac::sign(&self.0, data).as_ref());
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        hmac::verify(&self.0, data, signature).map_err(|_| CryptoError)
    }
}

/// A key that seals tokens for clients (RFC 9000 §8.1): AES-256-GCM with a key of its own for each token, by HKDF with
/// SHA-256. Servers that share clients share its bytes. See [`ResetKey`] for why it exists.
#[derive(Debug)]
pub struct TokenKey(hkdf::Prk);

impl TokenKey {
    /// The key from these bytes, which others must not be able to guess.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(secret))
    }
}

impl HandshakeTokenKey for TokenKey {
    fn aead_from_hkdf(&self, random_bytes: &[u8]) -> Box<dyn AeadKey> {
        let info = [random_bytes];
        let key = self.0.expand(&info, &aead::AES_256_GCM).expect("hkdf can yield 32 bytes");
        Box::new(OneToken(aead::LessSafeKey::new(key.into())))
    }
}

/// Seals one token, so that no nonce is used twice.
struct OneToken(aead::LessSafeKey);

impl OneToken {
    fn nonce() -> aead::Nonce {
        aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN])
    }
}

impl AeadKey for OneToken {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        let aad = aead::Aad::from(additional_data);
        self.0.seal_in_place_append_tag(Self::nonce(), aad, data).map_err(|_| CryptoError)
    }

    fn open<'a>(&self, data: &'a mut [u8], additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let aad = aead::Aad::from(additional_data);
        self.0.open_in_place(Self::nonce(), aad, data).map_err(|_| CryptoError)
    }
}

// With both features on, quinn-proto has its traits on the types of ring.
#[cfg(all(test, feature = "ring"))]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    #[test]
    fn tokens_are_those_of_quinn_with_the_same_secret_and_ring() {
        let theirs = ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &[]).extract(&SECRET);
        let (ours, theirs) =
            (TokenKey::new(&SECRET).aead_from_hkdf(b"nonce"), theirs.aead_from_hkdf(b"nonce"));
        let [mut sealed, mut expected] = [b"token".to_vec(), b"token".to_vec()];
        ours.seal(&mut sealed, b"address").unwrap();
        theirs.seal(&mut expected, b"address").unwrap();
        assert_eq!(sealed, expected);
        assert!(ours.open(&mut sealed.clone(), b"another").is_err());
        assert_eq!(ours.open(&mut sealed, b"address").unwrap(), b"token");
    }

    #[test]
    fn resets_are_those_of_quinn_with_the_same_secret_and_ring() {
        let (ours, theirs) = (ResetKey::new(&SECRET), ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &SECRET));
        let (mut signature, mut expected) = ([0; 32], [1; 32]);
        ours.sign(b"id", &mut signature);
        theirs.sign(b"id", &mut expected);
        assert_eq!((signature, ours.signature_len()), (expected, theirs.signature_len()));
        assert!(ours.verify(b"id", &signature).is_ok() && ours.verify(b"di", &signature).is_err());
    }
}
