//! Application datagrams (RFC 9221): unreliable and unordered. Only the primary carries them.

use bytes::Bytes;

use super::Connection;
use crate::quic::SendDatagramError;

impl Connection {
    /// Queues a datagram. With `drop_old`, the oldest queued datagrams are dropped to make room.
    ///
    /// # Errors
    /// [`SendDatagramError::UnsupportedByPeer`], [`SendDatagramError::Disabled`] if datagrams are off in the
    /// configuration, [`SendDatagramError::TooLarge`] above [`Self::max_datagram_size`], and without `drop_old`
    /// [`SendDatagramError::Blocked`] while the queue is full.
    pub fn send_datagram(&mut self, data: Bytes, drop_old: bool) -> Result<(), SendDatagramError> {
        self.primary.send_datagram(data, drop_old)
    }

    /// The next received datagram, oldest first.
    pub fn read_datagram(&mut self) -> Option<Bytes> {
        self.primary.datagrams().recv()
    }

    /// Most bytes of a datagram now; `None` if either side has disabled datagrams. Follows the path MTU.
    pub fn max_datagram_size(&mut self) -> Option<usize> {
        self.primary.datagrams().max_size()
    }

    /// Bytes of the largest datagram that can be queued without dropping another.
    pub fn datagram_send_buffer_space(&mut self) -> usize {
        self.primary.datagrams().send_buffer_space()
    }
}
