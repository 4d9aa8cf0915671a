//! What is known of a received datagram beside its bytes.

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

/// Where a datagram came from, and its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramMeta {
    /// The sender.
    pub remote: SocketAddr,
    /// The local address it was sent to, if known.
    pub local_ip: Option<IpAddr>,
    /// ECN bits of the IP header.
    pub ecn: u8,
    /// If it arrived in fragments: payload bytes of the leading fragment, without its IP header, if known. The length
    /// may be a router's signal, which the endpoint reports to the sender.
    pub leading_len: Option<u16>,
    /// When the system received it, if known; a time after `now` counts as `now`, and so does `None`. Only for the arrival
    /// times that RLP reports to the peer, whose clock measures the path by them: without it, the time that datagrams wait
    /// until the process reads them looks like the path's.
    pub arrived: Option<Instant>,
}

impl DatagramMeta {
    /// When it arrived, with `now` as the time of reading.
    pub(crate) fn arrived_by(&self, now: Instant) -> Instant {
        self.arrived.map_or(now, |at| at.min(now))
    }
}
