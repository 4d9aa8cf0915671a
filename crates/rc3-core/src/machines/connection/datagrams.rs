//! Application datagrams (RFC 9221): unreliable and unordered. They ride on the primary alone.

use bytes::Bytes;

use super::Connection;
use crate::error::SendDatagramError;

impl Connection {
    /// Queues a datagram. With `drop_old` the oldest that wait give way to it; otherwise it may be refused with
    /// [`SendDatagramError::Blocked`].
    ///
    /// # Errors
    /// See [`SendDatagramError`].
    pub fn send_datagram(&mut self, data: Bytes, drop_old: bool) -> Result<(), SendDatagramError> {
        self.primary.send_datagram(data, drop_old)
    }

    /// The next datagram that came, the oldest first.
    pub fn read_datagram(&mut self) -> Option<Bytes> {
        self.primary.read_datagram()
    }

    /// Bytes a datagram may have now; `None` if the peer takes none, or we do not. Follows the path MTU.
    pub fn max_datagram_size(&mut self) -> Option<usize> {
        self.primary.max_datagram_size()
    }

    /// Bytes of a datagram for which no other would have to give way.
    pub fn datagram_send_buffer_space(&mut self) -> usize {
        self.primary.datagram_send_buffer_space()
    }
}
