//! Puts the parts of a packet together.

use super::{Malformed, Packet, REASSEMBLED_MAX, Version, ipv4, ipv6};

impl Packet {
    /// The packet with this leading fragment and `others` as the rest, in order and without gaps: together
    /// `payload_len` bytes of payload.
    ///
    /// # Errors
    /// If that exceeds the longest IP packet, or the headers behind an IPv6 Fragment header are malformed.
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
                // The headers behind the Fragment header have not been checked yet.
                Self::parse(self.bytes)
            }
        }
    }
}
