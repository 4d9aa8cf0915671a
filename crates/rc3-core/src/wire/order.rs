//! The frames PROBE and ORDER (`docs/WIRE.md#order`): whether a datagram at normal priority arrived before earlier ones
//! of low priority.

use super::varint::{self, Reader};

/// Frame type of a PROBE.
pub(super) const PROBE: u64 = 0x06;
/// Frame type of an ORDER.
pub(super) const TYPE: u64 = 0x07;

/// The counts of a PROBE's datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Its packet number.
    pub packet_number: u64,
    /// Datagrams with DATA received before it.
    pub came: u64,
    /// Datagrams with DATA and a lower number received after it.
    pub overtaken: u64,
}

impl Order {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        let mut field = || reader.varint();
        Some(Self { packet_number: field()?, came: field()?, overtaken: field()? })
    }

    /// Appends the frame to `out`.
    ///
    /// # Panics
    /// When a field is above [`VARINT_MAX`](varint::VARINT_MAX).
    pub fn emit(&self, out: &mut Vec<u8>) {
        varint::emit_all([TYPE, self.packet_number, self.came, self.overtaken], out);
    }
}

/// Appends a PROBE frame to `out`.
pub fn emit_probe(out: &mut Vec<u8>) {
    varint::emit(PROBE, out);
}
