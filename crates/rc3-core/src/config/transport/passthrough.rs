//! Settings that go to quinn-proto unchanged, with quinn-proto's names and defaults.

use std::{fmt, sync::Arc};

use super::TransportConfig;
use crate::quic::{AckFrequencyConfig, MtuDiscoveryConfig, congestion::ControllerFactory};

/// The settings of one connection that pass through.
#[derive(Clone)]
pub(crate) struct Passthrough {
    pub(crate) packet_threshold: Option<u32>,
    pub(crate) time_threshold: Option<f32>,
    pub(crate) persistent_congestion_threshold: Option<u32>,
    pub(crate) min_mtu: Option<u16>,
    pub(crate) mtu_discovery: MtuDiscovery,
    pub(crate) pad_to_mtu: bool,
    pub(crate) ack_frequency: Option<AckFrequencyConfig>,
    pub(crate) crypto_buffer_size: Option<usize>,
    pub(crate) allow_spin: bool,
    pub(crate) datagram_receive_buffer_size: Option<usize>,
    pub(crate) datagram_send_buffer_size: usize,
    /// Instead of the built-in controllers.
    pub(crate) controller: Option<Arc<dyn ControllerFactory + Send + Sync>>,
}

impl Default for Passthrough {
    fn default() -> Self {
        Self {
            packet_threshold: None,
            time_threshold: None,
            persistent_congestion_threshold: None,
            min_mtu: None,
            mtu_discovery: MtuDiscovery::default(),
            pad_to_mtu: false,
            ack_frequency: None,
            crypto_buffer_size: None,
            allow_spin: true,
            // As quinn-proto: datagrams of one round trip at 100 Mbit/s x 100 ms, and 1 MiB to send.
            datagram_receive_buffer_size: Some(1_250_000),
            datagram_send_buffer_size: 1 << 20,
            controller: None,
        }
    }
}

impl fmt::Debug for Passthrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passthrough")
            .field("mtu_discovery", &self.mtu_discovery)
            .field("datagram_receive_buffer_size", &self.datagram_receive_buffer_size)
            .field("datagram_send_buffer_size", &self.datagram_send_buffer_size)
            .field("controller", &self.controller.as_ref().map(|_| "given"))
            .finish_non_exhaustive()
    }
}

/// Whether and how far a connection probes for a larger path MTU (RFC 8899).
#[derive(Debug, Clone, Default)]
pub(crate) enum MtuDiscovery {
    /// quinn-proto's defaults, which end at Ethernet's length; on loopback more, because the path has no other link.
    #[default]
    ByPeer,
    /// Up to IP packets of this many bytes.
    UpTo(u16),
    /// As set by the application.
    Within(MtuDiscoveryConfig),
    Off,
}

impl TransportConfig {
    /// Packets that must be acknowledged after one before it counts as lost (RFC 9002 §6.1.1). Default 3.
    pub fn packet_threshold(&mut self, packets: u32) -> &mut Self {
        self.passthrough.packet_threshold = Some(packets);
        self
    }

    /// Round-trip times after which an overtaken packet counts as lost (RFC 9002 §6.1.2), at most 1000. Default 9/8.
    pub fn time_threshold(&mut self, factor: f32) -> &mut Self {
        // quinn-proto panics when the product is no time.
        self.passthrough.time_threshold =
            Some(factor).filter(|factor| !factor.is_nan()).map(|factor| factor.clamp(0.0, 1000.0));
        self
    }

    /// Consecutive probe timeouts that make congestion persistent (RFC 9002 §7.6). Default 3.
    pub fn persistent_congestion_threshold(&mut self, factor: u32) -> &mut Self {
        self.passthrough.persistent_congestion_threshold = Some(factor);
        self
    }

    /// UDP payload in bytes that is known to pass, so that smaller packets need not be tried. Default 1200.
    pub fn min_mtu(&mut self, bytes: u16) -> &mut Self {
        self.passthrough.min_mtu = Some(bytes);
        self
    }

    /// How to probe for a larger path MTU; `None` disables it. See also [`Self::mtu_discovery`] and
    /// [`Self::path_mtu_max`].
    ///
    /// These are quinn-proto's search and its defaults; [`Self::path_mtu_max`] loses fewer probes.
    pub fn mtu_discovery_config(&mut self, config: Option<MtuDiscoveryConfig>) -> &mut Self {
        self.passthrough.mtu_discovery = config.map_or(MtuDiscovery::Off, MtuDiscovery::Within);
        self
    }

    /// Probes for a path MTU of up to `bytes`, IP and UDP headers included, over IPv4 and IPv6: usually the MTU of the
    /// device, for example 9000.
    ///
    /// If the whole path supports jumbo frames, this nearly halves the CPU time of bulk transfers. If only Ethernet's
    /// length passes, the first connection to a destination loses twelve probes for a maximum of 9000, and ends with
    /// packets of about 1470 bytes. For ten minutes later ones probe only what it has found; so it is not the default.
    pub fn path_mtu_max(&mut self, bytes: u16) -> &mut Self {
        self.passthrough.mtu_discovery = MtuDiscovery::UpTo(bytes);
        self
    }

    /// Whether to probe for a larger path MTU (RFC 8899). Default: yes; simulations with a fixed MTU disable it.
    ///
    /// The search ends at 1452 bytes of UDP payload, Ethernet's MTU over IPv6; if the peer has a loopback address, at
    /// 8144.
    pub fn mtu_discovery(&mut self, enabled: bool) -> &mut Self {
        self.passthrough.mtu_discovery = if enabled { MtuDiscovery::ByPeer } else { MtuDiscovery::Off };
        self
    }

    /// Whether the primary pads its packets to full length, so that lengths reveal less. RLP packets are not padded.
    pub fn pad_to_mtu(&mut self, pad: bool) -> &mut Self {
        self.passthrough.pad_to_mtu = pad;
        self
    }

    /// How rarely the peer should acknowledge, if it supports the extension. Default: as in RFC 9000. With an
    /// `ack_eliciting_threshold` of 0 it acknowledges every packet.
    pub fn ack_frequency_config(&mut self, config: Option<AckFrequencyConfig>) -> &mut Self {
        self.passthrough.ack_frequency = config;
        self
    }

    /// Bytes of handshake messages kept out of order. Default 16 KiB.
    pub fn crypto_buffer_size(&mut self, bytes: usize) -> &mut Self {
        self.passthrough.crypto_buffer_size = Some(bytes);
        self
    }

    /// Whether observers on the path may learn the round-trip time (RFC 9000 §17.4). Default: yes.
    pub fn allow_spin(&mut self, allow: bool) -> &mut Self {
        self.passthrough.allow_spin = allow;
        self
    }

    /// Bytes of received application datagrams stored for the application, the oldest are dropped first; `None` refuses
    /// datagrams (RFC 9221 §3). Default 1.25 MB.
    pub fn datagram_receive_buffer_size(&mut self, bytes: Option<usize>) -> &mut Self {
        self.passthrough.datagram_receive_buffer_size = bytes;
        self
    }

    /// Bytes of application datagrams that may wait to be sent. Default 1 MiB.
    pub fn datagram_send_buffer_size(&mut self, bytes: usize) -> &mut Self {
        self.passthrough.datagram_send_buffer_size = bytes;
        self
    }

    /// A congestion controller instead of [`Self::congestion`] and [`Self::initial_window`].
    ///
    /// If its metrics include a pacing rate, packets leave one by one at that rate, in bytes of UDP payload, whatever
    /// [`Self::paced`] says; its window still bounds the bytes in flight.
    pub fn congestion_controller_factory(
        &mut self,
        factory: Arc<dyn ControllerFactory + Send + Sync + 'static>,
    ) -> &mut Self {
        self.passthrough.controller = Some(factory);
        self
    }
}
