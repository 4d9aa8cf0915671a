//! What an application may change on a connection that is there already.

use super::Connection;
use crate::quic::{Dir, VarInt};

impl Connection {
    /// How many streams the peer may have open at once from now on. A lower limit takes effect as streams end.
    pub fn set_max_concurrent_streams(&mut self, dir: Dir, count: VarInt) {
        self.primary.set_max_concurrent_streams(dir, count);
    }

    /// Bytes held for sending before writes wait, no longer to be tuned. What is held beyond is still sent.
    pub fn set_send_window(&mut self, bytes: u64) {
        self.windows.fix_send(bytes);
        self.primary.set_send_window(bytes);
        self.wake_writers();
    }

    /// Bytes the peer's primary may send beyond what was read, no longer to be tuned. What was granted before stays
    /// granted.
    pub fn set_receive_window(&mut self, bytes: VarInt) {
        self.windows.fix_receive(bytes.into_inner());
        self.offer_receive_window();
    }

    /// Replaces the keys of the primary (RFC 9001 §6). Those of RLP change by themselves.
    ///
    /// Not before the handshake is confirmed (RFC 9001 §6.1): on clients, wait until the server has answered
    /// something. quinn-proto does not tell, and the peer would close the connection.
    pub fn force_key_update(&mut self) {
        self.primary.force_key_update();
    }

    /// The datagrams of this connection come from another address of ours from now on.
    pub(crate) fn handle_local_address_change(&mut self) {
        if self.lost.is_none() && !self.primary.is_handshaking() {
            self.primary.on_local_address_changed();
            self.move_away();
        }
    }
}
