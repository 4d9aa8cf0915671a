//! Bytes to types and back: the wire format of rc3, as in `docs/WIRE.md`.
//!
//! The parsers use no time, keys or connection. They trust no length, never panic, and allocate nothing in proportion
//! to a length field. An error is always the peer's fault and ends the connection. All integers are QUIC varints (RFC
//! 9000 §16); all lengths and offsets are bytes.
//!
//! - [`header`] and [`frame`] (with [`sack`], [`arrival`] and [`order`]): RLP datagrams, before sealing and after opening.
//! - [`head`]: the records inside each QUIC stream, where the primary loop runs and skips.
//! - [`control`]: the frames of the control stream.

pub(crate) mod alpn;
pub(crate) mod arrival;
pub(crate) mod control;
pub(crate) mod frame;
pub(crate) mod head;
pub(crate) mod header;
pub(crate) mod malformed;
pub(crate) mod order;
pub mod sack;
pub(crate) mod varint;

/// The version of the protocol, the start of the ALPN identifier.
pub const ALPN_VERSION: &str = "rc3/1";

#[cfg(test)]
pub(crate) mod document {
    //! The document, so that tests can compare its worked example and its tables with the code.

    pub(crate) const DOCUMENT: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/WIRE.md"));

    /// The bytes behind `name:` at the front of a line.
    pub(crate) fn documented(name: &str) -> Vec<u8> {
        let line = DOCUMENT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let hex: String = line.unwrap_or_else(|| panic!("no line {name}")).split_whitespace().collect();
        assert!(!hex.is_empty());
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }
}
