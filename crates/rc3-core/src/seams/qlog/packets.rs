//! The plaintext of packets, for their events: quinn-proto's own have no frames.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::frames::frames;

/// A packet that was sealed or opened.
#[derive(Debug)]
pub(super) struct LoggedPacket {
    pub(super) number: u64,
    pub(super) frames: Vec<Value>,
    /// Bytes of the packet.
    pub(super) length: usize,
    /// Bytes of its frames.
    pub(super) payload_length: usize,
}

/// The last packet in each direction, from the keys to the log: quinn-proto writes a packet's event right after it has
/// used the keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastPackets(Arc<Mutex<[Option<LoggedPacket>; 2]>>);

/// Which of the two packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketDirection {
    Sent = 0,
    Received = 1,
}

impl LastPackets {
    /// The keys have sealed or opened a packet of this length.
    pub(crate) fn put(&self, direction: PacketDirection, number: u64, payload: &[u8], length: usize) {
        let packet = LoggedPacket { number, frames: frames(payload), length, payload_length: payload.len() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[direction as usize] = Some(packet);
    }

    /// The packet, if it has this number.
    pub(super) fn take(&self, direction: PacketDirection, number: u64) -> Option<LoggedPacket> {
        let mut packets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        packets[direction as usize].take().filter(|packet| packet.number == number)
    }
}
