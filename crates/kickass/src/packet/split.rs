//! Fragmentation at a chosen length (RFC 791 §3.2, RFC 8200 §4.5).

use thiserror::Error;

use super::{FRAGMENT_UNIT, Fragment, Packet, Parts, Version, ipv4, ipv6};

/// Why a packet cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Indivisible {
    /// Don't Fragment is set.
    #[error("don't fragment is set")]
    DontFragment,
    /// The leading part would not be a positive multiple of 8 shorter than the payload.
    #[error("length of the leading fragment is not a multiple of 8 shorter than the payload")]
    Length,
    /// The options in the header are malformed, so it is unknown which to copy.
    #[error("malformed options")]
    Options,
}

impl Packet {
    /// Splits the packet after the first `lead` bytes of payload. `self` becomes the first part; the second is
    /// returned.
    ///
    /// Fragments can be split again. Lengths, offsets, flags and the IPv4 checksum of both parts are correct; the
    /// second part has only the options to be copied. An IPv6 packet without a Fragment header gets one with this
    /// `identification`, which no other packet between the same addresses may have within the lifetime of fragments. An
    /// existing identification stays.
    ///
    /// # Errors
    /// If Don't Fragment is set, `lead` is not a positive multiple of 8 below the payload's length, or the options are
    /// malformed. `self` is then unchanged.
    pub fn split(&mut self, lead: usize, identification: u32) -> Result<Self, Indivisible> {
        if self.dont_fragment() {
            return Err(Indivisible::DontFragment);
        }
        if lead == 0 || !lead.is_multiple_of(FRAGMENT_UNIT) || lead >= self.payload().len() {
            return Err(Indivisible::Length);
        }
        match self.parts.version {
            Version::V4 => self.split_v4(lead),
            Version::V6 => Ok(self.split_v6(lead, identification)),
        }
    }

    /// Splits off and returns a leading part of at most `len_max` bytes, IP header included; `None` if the packet is no
    /// longer than that, or cannot be split. For `identification` see [`Self::split`].
    pub fn split_leading(&mut self, len_max: usize, identification: u32) -> Option<Self> {
        let headers = match self.parts.version {
            Version::V4 => self.parts.headers,
            Version::V6 => self.parts.headers + ipv6::FRAGMENT_HEADER_LEN,
        };
        let lead = len_max.saturating_sub(headers) / FRAGMENT_UNIT * FRAGMENT_UNIT;
        let rest = (self.total_len() > len_max).then(|| self.split(lead, identification).ok())??;
        Some(std::mem::replace(self, rest))
    }

    fn split_v4(&mut self, lead: usize) -> Result<Self, Indivisible> {
        let Fragment { offset, more, .. } = ipv4::fragment(&self.bytes);
        let rest = &self.payload()[lead..];
        let header = &self.bytes[..self.parts.headers];
        let mut bytes = ipv4::header_of_rest(header, rest.len()).ok_or(Indivisible::Options)?;
        let headers = bytes.len();
        bytes.extend_from_slice(rest);
        ipv4::set_fragment(&mut bytes, offset + lead, more);
        self.bytes.truncate(self.parts.headers + lead);
        ipv4::set_fragment(&mut self.bytes, offset, true);
        Ok(Self { bytes, parts: Parts { headers, ..self.parts } })
    }

    fn split_v6(&mut self, lead: usize, identification: u32) -> Self {
        let whole = match self.parts.fragment_header {
            true => ipv6::fragment(&self.bytes[self.parts.headers..]),
            false => Fragment { offset: 0, more: false, identification },
        };
        let protocol = self.protocol();
        let part = |fragment| ipv6::fragment_header(protocol, fragment);
        let other = part(Fragment { offset: whole.offset + lead, ..whole });
        let first = part(Fragment { more: true, ..whole });

        let mut bytes = [&self.bytes[..self.parts.headers], &other, &self.payload()[lead..]].concat();
        bytes[self.parts.next_header_at] = ipv6::FRAGMENT;
        let total_len = bytes.len();
        ipv6::set_len(&mut bytes, total_len);

        let payload_at = self.payload_range().start;
        self.bytes.truncate(payload_at + lead);
        self.bytes.splice(self.parts.headers..payload_at, first);
        self.bytes[self.parts.next_header_at] = ipv6::FRAGMENT;
        self.parts.fragment_header = true;
        let total_len = self.bytes.len();
        ipv6::set_len(&mut self.bytes, total_len);
        Self { bytes, parts: self.parts }
    }
}
