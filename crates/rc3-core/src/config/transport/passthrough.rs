//! Settings that only quinn-proto needs, with quinn-proto's names and defaults, and those of its search for a path MTU.

use std::sync::Arc;

use super::TransportConfig;
use crate::{
    config::setters,
    quic::{AckFrequencyConfig, MtuDiscoveryConfig, QuicTransport, congestion::ControllerFactory},
};

/// Changes of quinn-proto's own settings, in the order in which the application made them.
pub(crate) type Passthrough<C> = Vec<Arc<dyn Fn(&mut C) + Send + Sync>>;

/// Setters whose values go to quinn-proto unchanged.
macro_rules! passed_to {
    ($quic:ident: $($(#[$attribute:meta])* $name:ident: $type:ty $(=> $value:expr)?;)*) => {
        $(
            $(#[$attribute])*
            pub fn $name(&mut self, $name: $type) -> &mut Self {
                $(let $name = $value;)?
                self.passed.push(Arc::new(move |quic: &mut $quic| {
                    quic.$name(Clone::clone(&$name));
                }));
                self
            }
        )*
    };
}
pub(in crate::config) use passed_to;

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
    passed_to! { QuicTransport:
        /// Packets that must be acknowledged after one before it counts as lost (RFC 9002 §6.1.1). Default 3.
        packet_threshold: u32;

        /// Consecutive probe timeouts that make congestion persistent (RFC 9002 §7.6). Default 3.
        persistent_congestion_threshold: u32;

        /// Whether the primary pads its packets to full length, so that lengths reveal less. RLP packets are not padded.
        pad_to_mtu: bool;

        /// How rarely the peer should acknowledge, if it supports the extension. Default: as in RFC 9000. With an
        /// `ack_eliciting_threshold` of 0 it acknowledges every packet.
        ack_frequency_config: Option<AckFrequencyConfig>;

        /// Bytes of handshake messages kept out of order. Default 16 KiB.
        crypto_buffer_size: usize;

        /// Whether observers on the path may learn the round-trip time (RFC 9000 §17.4). Default: yes.
        allow_spin: bool;

        /// Bytes of application datagrams that may wait to be sent. Default 1 MiB.
        datagram_send_buffer_size: usize;
    }

    /// Round-trip times after which an overtaken packet counts as lost (RFC 9002 §6.1.2), at most 1000. Default 9/8.
    pub fn time_threshold(&mut self, factor: f32) -> &mut Self {
        // quinn-proto panics when the product is no time.
        let factor = if factor.is_nan() { 9.0 / 8.0 } else { factor.clamp(0.0, 1000.0) };
        self.passed.push(Arc::new(move |quic| {
            quic.time_threshold(factor);
        }));
        self
    }

    setters! {
        /// Bytes of received application datagrams stored for the application, the oldest are dropped first; `None` refuses
        /// datagrams (RFC 9221 §3). Default 1.25 MB.
        datagram_receive_buffer_size: Option<usize>;

        /// UDP payload in bytes that is known to pass, so that smaller packets need not be tried. Default 1200.
        min_mtu: u16 => min_mtu = Some(min_mtu);

        /// How to probe for a larger path MTU; `None` disables it. See also [`Self::mtu_discovery`] and
        /// [`Self::path_mtu_max`].
        ///
        /// These are quinn-proto's search and its defaults; [`Self::path_mtu_max`] loses fewer probes.
        mtu_discovery_config: Option<MtuDiscoveryConfig>
            => mtu_discovery = mtu_discovery_config.map_or(MtuDiscovery::Off, MtuDiscovery::Within);

        /// Probes for a path MTU of up to this many bytes, IP and UDP headers included, over IPv4 and IPv6: usually the MTU of the
        /// device, for example 9000.
        ///
        /// If the whole path supports jumbo frames, this nearly halves the CPU time of bulk transfers. If only Ethernet's
        /// length passes, the first connection to a destination loses twelve probes for a maximum of 9000, and ends with
        /// packets of about 1470 bytes. For ten minutes later ones probe only what it has found; so it is not the default.
        path_mtu_max: u16 => mtu_discovery = MtuDiscovery::UpTo(path_mtu_max);

        /// Whether to probe for a larger path MTU (RFC 8899). Default: yes; simulations with a fixed MTU disable it.
        ///
        /// The search ends at 1452 bytes of UDP payload, Ethernet's MTU over IPv6; if the peer has a loopback address, at
        /// 8144.
        mtu_discovery: bool
            => mtu_discovery = if mtu_discovery { MtuDiscovery::ByPeer } else { MtuDiscovery::Off };

        /// A congestion controller instead of [`Self::congestion`] and [`Self::initial_window`].
        ///
        /// If its metrics include a pacing rate, packets leave one by one at that rate, in bytes of UDP payload, whatever
        /// [`Self::paced`] says; its window still bounds the bytes in flight.
        congestion_controller_factory: Arc<dyn ControllerFactory + Send + Sync + 'static>
            => controller = Some(congestion_controller_factory);
    }
}
