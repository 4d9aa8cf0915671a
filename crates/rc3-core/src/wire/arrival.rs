//! The ARRIVAL frame (`docs/WIRE.md#arrival`): the peer's arrival times, by its own clock. It precedes SACKs, for a
//! sender that requested it in its SETTINGS.

use super::varint::{self, Reader};

/// Frame type of an ARRIVAL.
pub(super) const TYPE: u64 = 0x05;

/// The newest received datagram with DATA, and the counts at its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its packet number: the highest of all with DATA.
    pub packet_number: u64,
    /// Datagrams with DATA received, including it.
    pub datagrams: u64,
    /// UDP payload received in total by both loops until that time, in bytes.
    pub bytes: u64,
    /// Its arrival time, in microseconds of a receiver clock that starts anywhere and runs evenly.
    pub micros: u64,
}

impl Arrival {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        let mut field = || reader.varint();
        Some(Self { packet_number: field()?, datagrams: field()?, bytes: field()?, micros: field()? })
    }

    /// Appends the frame to `out`.
    ///
    /// # Panics
    /// When a field is above [`varint::VARINT_MAX`].
    pub fn emit(&self, out: &mut Vec<u8>) {
        varint::emit_all([TYPE, self.packet_number, self.datagrams, self.bytes, self.micros], out);
    }
}
