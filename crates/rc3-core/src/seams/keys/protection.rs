//! The interface of RLP protection: the AEAD ([`super::aead`]), or what a simulator puts in its place.

use std::{fmt, sync::Arc};

use super::{RECEIPT_SECRET_LEN, ReceiverId, SECRET_LEN};
use crate::wire::header::{HEADER_LEN, TAG_LEN};

/// Protects all connections with the same settings.
pub trait Protection: fmt::Debug + Send + Sync {
    /// One direction of a connection, from its exported secret.
    fn direction(&self, secret: &[u8; SECRET_LEN]) -> Arc<dyn DirectionKeys>;

    /// The key of the receipts of a sender with this secret.
    fn receipts(&self, secret: &[u8; RECEIPT_SECRET_LEN]) -> Box<dyn Mask>;
}

/// Derives the keys of one direction of a connection.
pub trait DirectionKeys: Send + Sync {
    /// The receiver id of the path with this number.
    fn id(&self, path: u64) -> ReceiverId;

    /// Its header protection.
    fn mask(&self) -> Box<dyn Mask>;

    /// Its first keys.
    fn generation(&self) -> Box<dyn Generation>;

    /// Random keys, with which nobody seals.
    fn decoy(&self) -> Box<dyn Generation>;
}

/// Header protection (RFC 9001 §5.4).
pub trait Mask: Send + Sync {
    /// The mask for this sample; `None` if that is too short.
    fn of(&self, sample: &[u8]) -> Option<[u8; 5]>;
}

/// Protects datagrams between two key updates.
pub trait Generation: Send + Sync {
    /// The generation after this one.
    fn next(&self) -> Box<dyn Generation>;

    /// Encrypts `payload` in place and returns its tag.
    fn seal(&self, packet_number: u64, header: &[u8; HEADER_LEN], payload: &mut [u8]) -> [u8; TAG_LEN];

    /// Decrypts `sealed`, ciphertext and tag, in place and returns the length of the payload; `None` if it does not
    /// authenticate.
    fn open(&self, packet_number: u64, header: &[u8; HEADER_LEN], sealed: &mut [u8]) -> Option<usize>;
}
