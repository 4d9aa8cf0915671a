//! Limits that an application may change on an existing connection.

use super::Connection;
use crate::quic::{Dir, VarInt};

impl Connection {
    /// How many streams the peer may have open at once from now on. A lower limit takes effect as streams end.
    pub fn set_max_concurrent_streams(&mut self, dir: Dir, count: VarInt) {
        self.primary.set_max_concurrent_streams(dir, count);
    }

    /// Bytes stored for sending before writes wait; ends the tuning. Bytes beyond it are still sent.
    pub fn set_send_window(&mut self, bytes: u64) {
        self.memory.windows.fix_send(bytes);
        self.primary.set_send_window(bytes);
        self.wake_writers();
    }

    /// Most received and unread bytes of both loops from now on, as
    /// [`TransportConfig::receive_window`](crate::TransportConfig::receive_window). The primary may send half of them at
    /// once, or all if the peer does not use rc3. Earlier grants remain.
    pub fn set_receive_window(&mut self, bytes: VarInt) {
        self.memory.windows.set_receive(bytes.into_inner(), self.overlay.is_some());
        self.offer_receive_window();
        if let Some(overlay) = &mut self.overlay {
            overlay.recv_credit.raise(&self.config, self.memory.rlp_room(&self.streams));
            self.grant();
        }
    }

    /// Updates the keys of the primary (RFC 9001 §6). RLP updates its own.
    ///
    /// Not before the handshake is confirmed (RFC 9001 §6.1): on clients, wait for data from the server. quinn-proto
    /// does not report it, and the peer would close the connection.
    pub fn force_key_update(&mut self) {
        self.primary.force_key_update();
    }
}
