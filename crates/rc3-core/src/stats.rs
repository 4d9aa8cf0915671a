//! Counters of both loops, readable at any time.

#[cfg(feature = "kickass")]
mod kickass;

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

#[cfg(feature = "kickass")]
pub use self::kickass::{KickAssStats, SwitchCounts};
use crate::{
    laws::{clock::ClockStats, guard::GuardStats},
    units::Level,
};

/// Counters of a connection. Bytes are stream bytes unless a field names others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// The path as the primary sees it.
    pub path: PathStats,
    /// Whether both sides speak rc3; otherwise everything goes by the primary.
    pub rc3: bool,
    /// What the guard has seen and decided; `None` when there is none.
    pub guard: Option<GuardStats>,
    /// How fast RLP may be and why; `None` when no clock holds it.
    pub clock: Option<ClockStats>,
    /// Rates that routers signal, and how the connection follows them; `None` without [`crate::Congestion::KickAss`].
    #[cfg(feature = "kickass")]
    pub kickass: Option<KickAssStats>,
    /// What was sent.
    pub sent: SentStats,
    /// What was received.
    pub received: ReceivedStats,
}

/// The sending side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SentStats {
    /// Bytes handed to the primary.
    pub primary_bytes: u64,
    /// The RLP loop, by level; index 0 stays zero.
    pub levels: [LevelStats; Level::COUNT],
    /// Bytes that RLP sent as 0-RTT data; in `levels` too.
    pub early_bytes: u64,
    /// Bytes handed to the primary although RLP had sent them (no SACK had come).
    pub duplicate_bytes: u64,
    /// Bytes the primary was spared because RLP had delivered them.
    pub skipped_bytes: u64,
    /// Bytes of RLP that were lost and became open to it again.
    pub reopened_bytes: u64,
    /// SACK frames received.
    pub sacks: u64,
    /// Bytes the RLP loop may still send on this connection before it needs more credit.
    pub credit_bytes: u64,
    /// RLP packets sent in the current busy period: the position on the ladder.
    pub ladder_packets: u64,
    /// Memory that send streams take beside the bytes they hold: records of what was sent, by whom, and SACKed.
    pub overhead_bytes: u64,
}

/// One level of the RLP loop at the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LevelStats {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Bytes SACKed.
    pub delivered_bytes: u64,
}

/// The receiving side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReceivedStats {
    /// Bytes the primary brought first.
    pub primary_bytes: u64,
    /// Bytes RLP brought first, by level; index 0 stays zero.
    pub rlp_bytes: [u64; Level::COUNT],
    /// Bytes that came more than once.
    pub duplicate_bytes: u64,
    /// RLP bytes turned away because they would have needed too many separate spans or too much memory.
    pub refused_bytes: u64,
    /// RLP datagrams that opened.
    pub rlp_datagrams: u64,
    /// RLP datagrams that did not open, were replayed, or came for a closed stream.
    pub rlp_discarded: u64,
    /// QUIC datagrams from an address that had not proved itself, dropped because the answer could have been longer
    /// than it may be.
    pub unproven_discarded: u64,
    /// SACK frames sent.
    pub sacks: u64,
    /// Bytes held for the application, in order or not.
    pub buffered_bytes: u64,
    /// Memory that they take, at most: with the buffers they are in and the records of gaps between them.
    pub held_bytes: u64,
}

/// The path as the primary sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStats {
    /// The peer's address.
    pub remote: SocketAddr,
    /// Our address on this path, where known.
    pub local_ip: Option<IpAddr>,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Bytes in flight, in packets of the primary.
    pub in_flight: u64,
    /// Largest UDP payload in bytes known to pass.
    pub mtu: u16,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Times the controller reduced its window.
    pub congestion_events: u64,
}
