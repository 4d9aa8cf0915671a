//! What makes two ends trust each other that know the same words: SPAKE2 (RFC 9382) over the words gives a key, and with it
//! each end seals one message to the other. Anyone between them, the rendezvous included, has one guess at each end:
//! it takes part with words of its own, and learns whether they were right.
//!
//! The cipher is AES-256-GCM of the TLS provider, whichever that is, in the form in which rustls has it for QUIC.

use rustls::{
    CipherSuite,
    crypto::cipher::{AeadKey, Iv},
    quic::PacketKey,
};
use serde::{Serialize, de::DeserializeOwned};
use spake2::{Ed25519Group, Identity, Password, Spake2};
use zeroize::Zeroizing;

use super::code::Words;
use crate::{
    error::{Error, ErrorKind, Result},
    transfer::message::decode,
};

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// Contexts of the keys of messages to the host, and to the guest.
const CONTEXTS: [&str; 2] =
    ["rc3 2026 rendezvous, sealed by the guest", "rc3 2026 rendezvous, sealed by the host"];

/// Which of the two ends: the host has the number from the rendezvous, the guest comes with the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Host,
    Guest,
}

/// An exchange that has begun.
pub(super) struct Exchange {
    state: Spake2<Ed25519Group>,
    role: Role,
}

impl Exchange {
    /// Begins; also returns what the other end needs.
    pub(super) fn begin(role: Role, number: u32, words: &Words) -> (Self, Vec<u8>) {
        let password = Password::new(words.bytes());
        let id = |role| Identity::new(format!("rc3 {role} {number}").as_bytes());
        let (host, guest) = (id("host"), id("guest"));
        let (state, message) = match role {
            Role::Host => Spake2::start_a(&password, &host, &guest),
            Role::Guest => Spake2::start_b(&password, &host, &guest),
        };
        (Self { state, role }, message)
    }

    /// The keys, from what the other end has sent. They are the same only if the words are.
    ///
    /// # Errors
    /// When that is no such message.
    pub(super) fn finish(self, theirs: &[u8]) -> Result<Sealing> {
        let key = self.state.finish(theirs).map(Zeroizing::new).map_err(|_| wrong())?;
        let [to_host, to_guest] = CONTEXTS.map(|context| blake3::derive_key(context, &key));
        let (ours, theirs) = if self.role == Role::Host { (to_guest, to_host) } else { (to_host, to_guest) };
        Ok(Sealing { ours: cipher(ours)?, theirs: cipher(theirs)? })
    }
}

/// The other end does not know the words.
pub(super) fn wrong() -> Error {
    Error::new(
        ErrorKind::Refused,
        "the code is wrong, and now void: each allows one try",
        "run `rc3 recv` again, and use its new code; repeated failures may be somebody who guesses",
    )
}

/// One message each way.
pub(super) struct Sealing {
    ours: Box<dyn PacketKey>,
    theirs: Box<dyn PacketKey>,
}

impl Sealing {
    /// Seals the only message of this end.
    ///
    /// # Errors
    /// When the provider fails.
    pub(super) fn seal(&self, message: &impl Serialize) -> Result<Vec<u8>> {
        // Serializing into a vector cannot fail for these types: no maps, no unsized sequences.
        let mut bytes = postcard::to_stdvec(message).unwrap_or_default();
        let tag = self.ours.encrypt_in_place(0, &[], &mut bytes).map_err(unusable)?;
        Ok([&bytes, tag.as_ref()].concat())
    }

    /// Opens that of the other end.
    ///
    /// # Errors
    /// When it used other words.
    pub(super) fn open<M: DeserializeOwned>(&self, sealed: &[u8]) -> Result<M> {
        let mut bytes = sealed.to_vec();
        let opened = self.theirs.decrypt_in_place(0, &[], &mut bytes).map_err(|_| wrong())?;
        decode(opened).ok_or_else(|| Error::protocol("a message that does not parse"))
    }
}

fn unusable(error: impl std::fmt::Display) -> Error {
    Error::local("encrypt", error)
}

/// The cipher of one message.
fn cipher(key: [u8; KEY_BYTES]) -> Result<Box<dyn PacketKey>> {
    let provider = rc3_core::crypto_provider();
    let suites = &mut provider.cipher_suites.iter();
    let suite = suites.find(|suite| suite.suite() == CipherSuite::TLS13_AES_256_GCM_SHA384);
    let cipher = suite.and_then(|suite| suite.tls13()?.quic);
    let cipher = cipher.ok_or_else(|| unusable("the provider has no AES-256-GCM"))?;
    // Each key is for one message.
    Ok(cipher.packet_key(AeadKey::from(key), Iv::new([0; 12])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(numbers: [u32; 2], words: [&Words; 2]) -> (Sealing, Sealing) {
        let (host, to_guest) = Exchange::begin(Role::Host, numbers[0], words[0]);
        let (guest, to_host) = Exchange::begin(Role::Guest, numbers[1], words[1]);
        (host.finish(&to_host).unwrap(), guest.finish(&to_guest).unwrap())
    }

    #[test]
    fn only_who_knows_number_and_words_opens_what_is_sealed() {
        let (words, others) = (Words::random().unwrap(), Words::random().unwrap());
        let text = "a secret".to_owned();
        let (host, guest) = pair([7; 2], [&words; 2]);
        let sealed = host.seal(&text).unwrap();
        assert_eq!(guest.open::<String>(&sealed).unwrap(), text);
        assert!(!sealed.windows(4).any(|part| text.as_bytes().windows(4).any(|other| part == other)));
        assert_eq!(host.open::<String>(&guest.seal(&text).unwrap()).unwrap(), text);
        // Nobody takes his own words for those of the other end, nor changed ones.
        assert!(host.open::<String>(&sealed).is_err());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(guest.open::<String>(&changed).is_err());
        }
        for (host, guest) in [pair([7; 2], [&words, &others]), pair([7, 8], [&words; 2])] {
            let error = guest.open::<String>(&host.seal(&text).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(host.open::<String>(&guest.seal(&text).unwrap()).is_err());
        }
    }

    #[test]
    fn hostile_messages_are_refused() {
        for message in [&[][..], &[0; 33], &[b'B'; 33], &[0xff; 1000]] {
            let (host, _) = Exchange::begin(Role::Host, 7, &Words::random().unwrap());
            assert!(host.finish(message).is_err());
        }
    }
}
