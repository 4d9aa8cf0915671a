//! Settings that go to quinn-proto as they are: rc3 has no opinion on them, and the defaults are quinn-proto's.

use std::{fmt, net::SocketAddr, sync::Arc};

use quinn_proto as quic;
use quinn_proto::congestion::ControllerFactory;

use super::mtu_discovery::MtuDiscovery;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) packet_threshold: Option<u32>,
    pub(crate) time_threshold: Option<f32>,
    pub(crate) persistent_congestion_threshold: Option<u32>,
    pub(crate) min_mtu: Option<u16>,
    pub(crate) mtu_discovery: MtuDiscovery,
    pub(crate) pad_to_mtu: bool,
    pub(crate) ack_frequency: Option<quic::AckFrequencyConfig>,
    pub(crate) crypto_buffer_size: Option<usize>,
    pub(crate) allow_spin: bool,
    pub(crate) datagram_receive_buffer_size: Option<usize>,
    pub(crate) datagram_send_buffer_size: usize,
    /// In place of the built-in controllers.
    pub(crate) controller: Option<Arc<dyn ControllerFactory + Send + Sync>>,
}

impl Default for Settings {
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

impl Settings {
    pub(super) fn apply(&self, quic: &mut quic::TransportConfig, remote: SocketAddr) {
        quic.mtu_discovery_config(self.mtu_discovery.config(remote))
            .pad_to_mtu(self.pad_to_mtu)
            .ack_frequency_config(self.ack_frequency.clone())
            .allow_spin(self.allow_spin)
            .datagram_receive_buffer_size(self.datagram_receive_buffer_size)
            .datagram_send_buffer_size(self.datagram_send_buffer_size);
        self.packet_threshold.map(|packets| quic.packet_threshold(packets));
        self.time_threshold.map(|factor| quic.time_threshold(factor));
        self.persistent_congestion_threshold.map(|factor| quic.persistent_congestion_threshold(factor));
        self.min_mtu.map(|bytes| quic.min_mtu(bytes));
        self.crypto_buffer_size.map(|bytes| quic.crypto_buffer_size(bytes));
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("mtu_discovery", &self.mtu_discovery)
            .field("datagram_receive_buffer_size", &self.datagram_receive_buffer_size)
            .field("datagram_send_buffer_size", &self.datagram_send_buffer_size)
            .field("controller", &self.controller.as_ref().map(|_| "given"))
            .finish_non_exhaustive()
    }
}
