//! What an endpoint wants sent.

use std::net::{IpAddr, SocketAddr};

use crate::units::Level;

/// Bytes of one [`Transmit`] at most: the largest UDP payload over IPv4, which also bounds what one call hands to a system's
/// segmentation offload.
pub const BATCH_BYTES_MAX: usize = 65_507;

/// One datagram, or several of equal length to the same place, at one level. The bytes are in the caller's
/// buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub destination: SocketAddr,
    /// From which local address, if it matters.
    pub source: Option<IpAddr>,
    /// Service level; [`Level::PRIMARY`] for all of QUIC.
    pub level: Level,
    /// ECN bits of the IP header.
    pub ecn: u8,
    /// Total length in bytes; at most [`BATCH_BYTES_MAX`].
    pub size: usize,
    /// Length of each datagram but the last, when there are several.
    pub segment_size: Option<usize>,
    /// Whether routers may not fragment it. Where they may, it is one datagram, which must have an IP identification of
    /// its own.
    pub dont_fragment: bool,
}
