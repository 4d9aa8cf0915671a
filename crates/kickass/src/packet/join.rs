//! The parts of a packet put together again.

use super::{Malformed, Packet, REASSEMBLED_MAX, Version, ipv4, ipv6};

impl Packet {
    /// The packet of which this is the leading fragment and `others` the rest, in order and without gaps: together
    /// `payload_len` bytes of payload.
    ///
    /// # Errors
    /// If that is more than a packet can have, or what was behind an IPv6 Fragment header is malformed.
    pub(crate) fn join(
        mut self,
        others: impl Iterator<Item = Self>,
        payload_len: usize,
    ) -> Result<Self, Malformed> {
        let counted = match self.parts.version {
            Version::V4 => self.parts.headers,
            Version::V6 => self.parts.headers - ipv6::HEADER_LEN,
        };
        if counted + payload_len > REASSEMBLED_MAX {
            return Err(Malformed::TooLong);
        }
        if self.parts.fragment_header {
            self.bytes[self.parts.next_header_at] = self.protocol();
            self.bytes.drain(self.parts.headers..self.payload_range().start);
            self.parts.fragment_header = false;
        }
        self.bytes.reserve_exact((self.parts.headers + payload_len).saturating_sub(self.bytes.len()));
        for other in others {
            self.bytes.extend_from_slice(other.payload());
        }
        match self.parts.version {
            Version::V4 => {
                ipv4::set_fragment(&mut self.bytes, 0, false);
                Ok(self)
            }
            Version::V6 => {
                ipv6::set_payload_len(&mut self.bytes);
                // What was behind the Fragment header has not been looked at.
                Self::parse(self.bytes)
            }
        }
    }
}
