//! Packets and windows counted as TCP counts them, for comparisons with it: application bytes in a full packet, and
//! packets in the first flight.

use super::{TransportConfig, setters};

/// Bytes of a full primary packet besides stream bytes: short header with an 8-byte connection id and a 2-byte packet
/// number (11), AEAD tag (16), STREAM frame with an offset below 1 GiB and no length (6); plus a margin, so that frames
/// in some packets do not make a flow one packet longer.
const PRIMARY_OVERHEAD: u16 = 37;

/// The same for RLP: header (13), AEAD tag (16), DATA frame with an offset and a final size below 1 GiB (14).
const RLP_OVERHEAD: u16 = 43;

/// UDP payload in bytes of an Ethernet frame, over IPv4. Longer packets may not pass.
const ETHERNET: u16 = 1472;

impl TransportConfig {
    setters! {
        /// Sets the bytes of one stream in each full packet to those of a TCP segment, instead of [`Self::initial_mtu`] and
        /// MTU discovery; `None`, the default, leaves the length to these.
        ///
        /// With [`super::RlpMode::Off`] packets of the primary have room for 4 to 9 bytes more: other frames use some, and
        /// small offsets and packet numbers are encoded in fewer bytes. With RLP, its packets carry exactly `bytes` beyond
        /// the first 16 KiB of a stream, and up to 5 more before. The primary's then have room for 10 to 15 more, but get
        /// some 50 fewer than fit, to leave room for acknowledgments.
        ///
        /// Peers that use quinn accept at most 1472 bytes of UDP payload, which are segments of 1429.
        segment_size: Option<u16>;

        /// Initial congestion window in full packets, instead of [`Self::initial_window`]. Without pacing, this many leave
        /// at once after the handshake, not counting its last datagram; bytes written before that datagram has left go into
        /// it as far as they fit. Default `None`.
        initial_packets: Option<u32>;
    }

    /// UDP payload in bytes of a full packet, unless discovery finds a larger one: [`Self::initial_mtu`], or the result
    /// of [`Self::segment_size`]. Never below 1200 (RFC 9000 §14).
    ///
    /// With [`Congestion::KickAss`](super::Congestion::KickAss) it is never a multiple of 8, so that receivers can
    /// identify signals (docs/WIRE.md).
    pub fn mtu(&self) -> u16 {
        let overhead = if self.speaks_rc3() { RLP_OVERHEAD } else { PRIMARY_OVERHEAD };
        self.readable(
            self.segment_size.map_or(self.initial_mtu, |bytes| bytes.saturating_add(overhead).max(1200)),
        )
    }

    /// The padded length of handshake packets in bytes, on a path that has carried a datagram of `carried` bytes from the
    /// peer. Three of them are at most three times what came (RFC 9000 §8.1).
    pub(crate) fn padded(&self, carried: u16) -> u16 {
        self.readable(self.min_mtu.unwrap_or(1200).max(carried.min(self.mtu())).max(1200))
    }

    /// Of two fragments, some systems report only the length of the longer one. The leading one can be identified if
    /// the last is not a multiple of 8 bytes long, that is, if the UDP length including its header is not.
    fn readable(&self, mtu: u16) -> u16 {
        match mtu {
            _ if !self.steered() || !mtu.is_multiple_of(8) => mtu,
            ETHERNET.. => mtu - 1,
            _ => mtu + 1,
        }
    }

    /// Whether routers may signal a rate to this connection.
    pub(crate) fn steered(&self) -> bool {
        match self.congestion {
            super::Congestion::KickAss => self.controller.is_none(),
            _ => false,
        }
    }

    /// The initial window in bytes; `None` is the controller's own default.
    pub(crate) fn initial_window_bytes(&self) -> Option<u64> {
        let packets = |count| u64::from(count) * u64::from(self.mtu());
        // A packet leaves while in flight + mtu < window.
        self.initial_packets.map_or(self.initial_window, |count| Some(packets(count) + 1))
    }
}
