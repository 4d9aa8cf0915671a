//! Datagrams that an endpoint wants to send.

use std::net::{IpAddr, SocketAddr};

use crate::units::Level;

/// Most bytes of one [`Transmit`]: the largest UDP payload over IPv4, which also bounds one call of a system's
/// segmentation offload.
pub const BATCH_BYTES_MAX: usize = 65_507;

/// One datagram, or several of equal length to the same place, at one level. The bytes are in the caller's
/// buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Destination.
    pub destination: SocketAddr,
    /// Local address to send from, if it matters.
    pub source: Option<IpAddr>,
    /// Service level; [`Level::PRIMARY`] for all of QUIC.
    pub level: Level,
    /// ECN bits of the IP header.
    pub ecn: u8,
    /// Total length in bytes; at most [`BATCH_BYTES_MAX`].
    pub size: usize,
    /// Length of each datagram except the last, if there are several.
    pub segment_size: Option<usize>,
    /// Whether routers must not fragment it. If they may, it is one datagram, which must have a different IP
    /// identification from all others.
    pub dont_fragment: bool,
}
