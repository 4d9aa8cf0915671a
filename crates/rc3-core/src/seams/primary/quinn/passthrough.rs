//! Passes settings to quinn-proto unchanged.

use std::net::SocketAddr;

use quinn_proto as quic;

use super::mtu_discovery::Search;
use crate::config::Passthrough;

impl Passthrough {
    pub(super) fn apply(
        &self,
        quic: &mut quic::TransportConfig,
        remote: SocketAddr,
        initial_mtu: u16,
        search: Option<Search>,
    ) {
        quic.mtu_discovery_config(self.mtu_discovery.config(remote, initial_mtu, search))
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
