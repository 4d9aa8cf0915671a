//! Keys that protect nothing.

use bytes::BytesMut;
use quinn_proto::{
    ConnectionId, Side,
    crypto::{AeadKey, CryptoError, HandshakeTokenKey, HeaderKey, KeyPair, Keys, PacketKey},
};

use crate::insecure::tag::{self, Tagger};

/// Bytes of ciphertext that header protection samples (RFC 9001 §5.4.2): quinn-proto pads packets to have them.
const SAMPLE_LEN: usize = 16;

/// RFC 9001 §6.6, for AEAD_AES_128_GCM, so that keys are updated when they would be.
const CONFIDENTIALITY_LIMIT: u64 = 1 << 23;
const INTEGRITY_LIMIT: u64 = 1 << 52;

/// Zeros kept at the end of an Initial packet. Its last frame may be an ACK that ends in fewer.
const ZEROS_KEPT: usize = 16;

const CLIENT: u64 = 2;
const SERVER: u64 = 3;

/// The keys of Initial packets (RFC 9001 §5.2).
pub(super) fn initial(dst_cid: &ConnectionId, side: Side) -> Keys {
    let secret = Tagger::new(dst_cid);
    Keys { packet: packet_keys(secret, side, true), ..keys(secret, side) }
}

/// The keys of `side` between peers that share `secret`.
pub(super) fn keys(secret: Tagger, side: Side) -> Keys {
    let header = KeyPair { local: no_header_protection(), remote: no_header_protection() };
    Keys { header, packet: packet_keys(secret, side, false) }
}

/// The part that key updates change.
pub(super) fn packet_keys(secret: Tagger, side: Side, padded: bool) -> KeyPair<Box<dyn PacketKey>> {
    let key = |of_client| -> Box<dyn PacketKey> {
        Box::new(Tags { tagger: secret.derive(if of_client { CLIENT } else { SERVER }), padded })
    };
    KeyPair { local: key(side.is_client()), remote: key(side.is_server()) }
}

/// RFC 9001 §5.8.
pub(super) fn retry_tag(orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
    Tagger::new(orig_dst_cid).tag(0, packet, 0)
}

fn no_header_protection() -> Box<dyn HeaderKey> {
    Box::new(InTheClear)
}

struct InTheClear;

impl HeaderKey for InTheClear {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        SAMPLE_LEN
    }
}

struct Tags {
    tagger: Tagger,
    /// Whether packets end in much PADDING, which quinn-proto would parse byte by byte, and in no data of a stream.
    padded: bool,
}

impl PacketKey for Tags {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let (header, sealed) = buf.split_at_mut(header_len);
        let (payload, place) = sealed.split_at_mut(sealed.len() - tag::LEN);
        place.copy_from_slice(&self.tagger.tag(packet, header, payload.len()));
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let mut len = self.tagger.check(packet, header, payload).ok_or(CryptoError)?;
        if self.padded {
            let zeros = payload[..len].iter().rev().take_while(|&&byte| byte == 0).count();
            len -= zeros.saturating_sub(ZEROS_KEPT);
        }
        payload.truncate(len);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        tag::LEN
    }

    fn confidentiality_limit(&self) -> u64 {
        CONFIDENTIALITY_LIMIT
    }

    fn integrity_limit(&self) -> u64 {
        INTEGRITY_LIMIT
    }
}

/// Tokens by which servers recognise an address (RFC 9000 §8.1), as long as sealed ones.
pub(crate) struct TokenKey;

impl HandshakeTokenKey for TokenKey {
    fn aead_from_hkdf(&self, random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(TokenTags(Tagger::new(random_bytes)))
    }
}

struct TokenTags(Tagger);

impl AeadKey for TokenTags {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        let tag = self.0.tag(0, additional_data, data.len());
        data.extend_from_slice(&tag);
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let len = self.0.check(0, additional_data, data).ok_or(CryptoError)?;
        Ok(&mut data[..len])
    }
}
