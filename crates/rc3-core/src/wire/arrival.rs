//! The ARRIVAL frame (`docs/WIRE.md#arrival`): when the peer received what, by its own clock. It comes in front of SACKs,
//! to a sender that asked for it in its SETTINGS.

use super::{
    frame_error::FrameError,
    varint::{self, Reader},
};

/// Frame type of an ARRIVAL.
pub(super) const TYPE: u64 = 0x05;

/// The newest datagram with DATA that has come, and what had come by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its packet number: the highest of all that carried DATA.
    pub packet_number: u64,
    /// Datagrams with DATA received, itself included.
    pub datagrams: u64,
    /// UDP payload received in all by both loops, in bytes.
    pub bytes: u64,
    /// When it came, in microseconds of a clock of the receiver that starts anywhere and runs evenly.
    pub micros: u64,
}

impl Arrival {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FrameError> {
        let mut field = || reader.varint().ok_or(FrameError::Truncated);
        Ok(Self { packet_number: field()?, datagrams: field()?, bytes: field()?, micros: field()? })
    }

    /// Appends the frame to `out`.
    ///
    /// # Panics
    /// When a field is above [`varint::VARINT_MAX`].
    pub fn emit(&self, out: &mut Vec<u8>) {
        for field in [TYPE, self.packet_number, self.datagrams, self.bytes, self.micros] {
            varint::emit(field, out);
        }
    }
}
