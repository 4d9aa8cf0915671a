//! Replaces an AEAD tag: distinguishes packets of different keys, and protects nothing.

use rc3_core::internals::{
    security::{absorb, mix},
    wire::TAG_LEN,
};

/// Length of a tag in bytes, that of AEAD_AES_128_GCM.
pub(crate) const LEN: usize = TAG_LEN;

/// Writes and checks the tags of one direction between two key updates.
///
/// A tag depends on the key, the packet number, the header and the length of the payload, but not on its bytes: no one
/// changes those in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tagger(u64);

impl Tagger {
    /// The tagger for this secret.
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(absorb(0, secret))
    }

    /// A tagger that differs by `label`.
    pub(crate) fn derive(self, label: u64) -> Self {
        Self(mix(self.0 ^ mix(label)))
    }

    /// The tagger after a key update.
    pub(crate) fn following(self) -> Self {
        self.derive(1)
    }

    pub(crate) fn key(self) -> u64 {
        self.0
    }

    pub(crate) fn tag(self, packet_number: u64, header: &[u8], payload_len: usize) -> [u8; LEN] {
        let numbered = mix(self.0 ^ packet_number) ^ payload_len as u64;
        let first = absorb(numbered, header);
        let mut tag = [0; LEN];
        let (low, high) = tag.split_at_mut(LEN / 2);
        low.copy_from_slice(&first.to_be_bytes());
        high.copy_from_slice(&mix(first).to_be_bytes());
        tag
    }

    /// The length of the payload in `sealed`, payload and tag; `None` if the tag is wrong.
    pub(crate) fn check(self, packet_number: u64, header: &[u8], sealed: &[u8]) -> Option<usize> {
        let (payload, tag) = sealed.split_last_chunk::<LEN>()?;
        (*tag == self.tag(packet_number, header, payload.len())).then_some(payload.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(tagger: Tagger) -> Vec<u8> {
        [&b"payload"[..], &tagger.tag(7, b"header", 7)].concat()
    }

    #[test]
    fn what_was_tagged_is_taken() {
        let tagger = Tagger::new(b"secret");
        assert_eq!(tagger.check(7, b"header", &sealed(tagger)), Some(7));
    }

    #[test]
    fn stray_packets_are_refused() {
        let tagger = Tagger::new(b"secret");
        let other = Tagger::new(b"another");
        assert_eq!(other.check(7, b"header", &sealed(tagger)), None);
        assert_eq!(tagger.following().check(7, b"header", &sealed(tagger)), None);
        assert_eq!(tagger.check(8, b"header", &sealed(tagger)), None);
        assert_eq!(tagger.check(7, b"Header", &sealed(tagger)), None);
        assert_eq!(tagger.check(7, b"header", &sealed(tagger)[1..]), None);
        assert_eq!(tagger.check(7, b"header", b"too short"), None);
    }
}
