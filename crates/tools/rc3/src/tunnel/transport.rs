//! Transport settings of both sides: many streams that must not hold up one another.

use std::{sync::Arc, time::Duration};

use rc3_net::{Connection, RlpMode, TransportConfig, VarInt};

use super::{CONNECTIONS_MAX, FLOWS_MAX};
use crate::transfer::network::Network;

/// Interval of keep-alive packets.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Unread bytes of one stream, and its bytes stored for sending. It limits a stream to 335 Mbit/s at 200 ms.
const STREAM_WINDOW: u32 = 8 << 20;
/// Unread bytes of a connection, of both loops together, and its bytes stored for sending. Eight TCP connections whose programs do not read fill it.
const CONNECTION_WINDOW: u32 = 64 << 20;

/// Settings of both sides.
pub(super) fn transport(rlp: RlpMode, network: &Network) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .rlp(rlp)
        .max_idle_timeout(network.give_up_after.try_into().ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(CONNECTION_WINDOW.into())
        .send_window(CONNECTION_WINDOW.into())
        .stream_send_window(STREAM_WINDOW.into())
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        // The control stream, until the peer is authorised.
        .max_concurrent_bidi_streams(VarInt::from_u32(1));
    Arc::new(config)
}

/// The peer is authorised: it may open a stream for each TCP connection and UDP flow. The windows are large at once, so that a
/// stream that is not read cannot hold up the others, and keep them from growing.
pub(super) fn open_up(connection: &Connection) {
    connection.set_send_window(CONNECTION_WINDOW.into());
    connection.set_receive_window(VarInt::from_u32(CONNECTION_WINDOW));
    connection.set_max_concurrent_bi_streams(VarInt::from_u32(CONNECTIONS_MAX + FLOWS_MAX + 1));
}
