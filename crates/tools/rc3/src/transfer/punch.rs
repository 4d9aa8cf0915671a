//! Packets that open this host's NAT for those of a peer (hole punching, RFC 5128 §3.3): the beginnings of connections
//! that nobody answers. They are repeated by the probe timeout (RFC 9002 §6.2), and end by themselves.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rc3_net::{ClientConfig, Connecting, ConnectionId, Endpoint, RlpMode, VarInt};

use super::{
    direct::{RTT_GUESS, UDP_PATIENCE},
    identity::{SERVER_NAME, client},
    meet::Settings,
    message::ALPN,
    ticket::{FINGERPRINT_BYTES, Fingerprint},
};
use crate::error::Result;

/// How long packets are repeated: as long as the peer tries to connect.
const PUNCH_FOR: Duration = UDP_PATIENCE;

/// How such packets are made.
pub(crate) struct Punch(ClientConfig);

impl Punch {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        // Nobody has a certificate with this hash.
        let tls = client(Some(Fingerprint([0; FINGERPRINT_BYTES])), ALPN)?;
        let mut transport = settings.transport(0, 0)?;
        // It takes no part of the memory that bounds the window of the real connection.
        transport.receive_window(VarInt::from_u32(0)).rlp(RlpMode::Off);
        transport.initial_rtt(RTT_GUESS).max_idle_timeout(PUNCH_FOR.try_into().ok());
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport));
        Ok(Self(config))
    }

    /// The same with this connection id, by which a relay knows them.
    pub(crate) fn marked(mut self, id: &[u8]) -> Self {
        let id = ConnectionId::new(id);
        self.0.initial_dst_cid_provider(Arc::new(move || id));
        self
    }

    /// Begins to send from the endpoint; ends when dropped, or after [`PUNCH_FOR`]. `None` without a route.
    pub(crate) fn begin(&self, endpoint: &Endpoint, to: SocketAddr) -> Option<Connecting> {
        endpoint.connect_with(self.0.clone(), to, SERVER_NAME).ok()
    }
}
