//! Packets and windows counted as TCP counts them, for comparisons with it: so many bytes of the application in a
//! full packet, so many packets in the first flight.

use super::TransportConfig;

/// Bytes of a full primary packet beside those of the stream: short header with an 8-byte connection id and a 2-byte
/// packet number (11), AEAD tag (16), STREAM frame with an offset below 1 GiB and no length (6); and a little, for the
/// frames that ride in some packets must not make a flow one packet longer.
const PRIMARY_OVERHEAD: u16 = 37;

/// The same for RLP: header (13), AEAD tag (16), DATA frame with an offset and a final size below 1 GiB (14).
const RLP_OVERHEAD: u16 = 43;

/// UDP payload in bytes of an Ethernet frame, over IPv4. More may not pass.
const ETHERNET: u16 = 1472;

impl TransportConfig {
    /// Has each full packet carry as many bytes of one stream as a TCP segment would, in place of
    /// [`Self::initial_mtu`] and MTU discovery; `None`, the default, leaves it to these.
    ///
    /// With [`super::RlpMode::Off`] packets of the primary have room for 4 to 9 bytes more than that: other frames take some, and
    /// small offsets and packet numbers are encoded in fewer bytes. With RLP its packets carry exactly `bytes` beyond
    /// the first 16 KiB of a stream, up to 5 more before. The primary's then have 10 to 15 more, and are handed some 50
    /// fewer than fit, to leave room for acknowledgments.
    ///
    /// Peers that run quinn take no more than 1472 bytes of UDP payload, which are segments of 1429.
    pub fn segment_size(&mut self, bytes: Option<u16>) -> &mut Self {
        self.segment_size = bytes;
        self
    }

    /// Initial congestion window in full packets, in place of [`Self::initial_window`]. Without pacing as many leave at
    /// once after the handshake, the last datagram of which does not count; what is written before that has left
    /// rides in it as far as it fits. Default `None`.
    pub fn initial_packets(&mut self, packets: Option<u32>) -> &mut Self {
        self.initial_packets = packets;
        self
    }

    /// UDP payload in bytes of a full packet, unless discovery finds a larger one: [`Self::initial_mtu`], or what
    /// [`Self::segment_size`] makes of it. Never below 1200 (RFC 9000 §14).
    ///
    /// With [`Congestion::KickAss`](super::Congestion::KickAss) it is no multiple of 8, so that receivers can read signals off it (docs/WIRE.md).
    pub fn mtu(&self) -> u16 {
        let overhead = if self.speaks_rc3() { RLP_OVERHEAD } else { PRIMARY_OVERHEAD };
        self.readable(
            self.segment_size.map_or(self.initial_mtu, |bytes| bytes.saturating_add(overhead).max(1200)),
        )
    }

    /// The length that handshake packets are padded to, in bytes.
    pub(crate) fn padded(&self) -> u16 {
        self.readable(self.passthrough.min_mtu.unwrap_or(1200).max(1200))
    }

    /// Of two fragments, systems may tell only the length of the longer one. Which of them is the first is known if the
    /// last is no multiple of 8 bytes long, and so the UDP header of 8 bytes and what follows it are none in all.
    fn readable(&self, mtu: u16) -> u16 {
        match mtu {
            _ if !self.steered() || !mtu.is_multiple_of(8) => mtu,
            ETHERNET.. => mtu - 1,
            _ => mtu + 1,
        }
    }

    /// Whether routers may tell this connection its rate.
    pub(crate) fn steered(&self) -> bool {
        match self.congestion {
            #[cfg(feature = "kickass")]
            super::Congestion::KickAss => self.passthrough.controller.is_none(),
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
