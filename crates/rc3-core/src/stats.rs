//! Counters of both loops, readable at any time.

use std::time::Instant;

mod kickass;

pub use self::kickass::{KickAssStats, SwitchCounts};
use crate::{
    laws::{clock::ClockStats, guard::GuardStats},
    quic::{FrameStats, PathStats, UdpStats},
    units::Level,
};

/// Counters of a connection. Bytes are stream bytes unless a field names others.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// Datagrams that the primary has sent.
    pub udp_tx: UdpStats,
    /// Datagrams that the primary has received, including those that do not authenticate.
    pub udp_rx: UdpStats,
    /// QUIC frames that the primary has sent.
    pub frame_tx: FrameStats,
    /// QUIC frames that the primary has received.
    pub frame_rx: FrameStats,
    /// The path as the primary sees it; bytes are those of its packets.
    pub path: PathStats,
    /// Bytes in flight, in packets of the primary.
    pub in_flight: u64,
    /// Since when the peer has acknowledged nothing, if it has been asked in vain: the path or the peer is gone. `None`
    /// otherwise.
    pub silent_since: Option<Instant>,
    /// Whether both sides use rc3; otherwise the primary carries everything.
    pub rc3: bool,
    /// The guard's measurements and verdict; `None` without a guard.
    pub guard: Option<GuardStats>,
    /// RLP's rate and its reason; `None` without a clock.
    pub clock: Option<ClockStats>,
    /// Rates that routers signal, and how the connection follows them; `None` without [`crate::Congestion::KickAss`].
    pub kickass: Option<KickAssStats>,
    /// Sending side.
    pub sent: SentStats,
    /// Receiving side.
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
    /// Bytes handed to the primary although RLP had sent them (no SACK had arrived).
    pub duplicate_bytes: u64,
    /// Bytes the primary skipped because RLP had delivered them.
    pub skipped_bytes: u64,
    /// RLP bytes that were lost and may be sent by RLP again.
    pub reopened_bytes: u64,
    /// SACK frames received.
    pub sacks: u64,
    /// Bytes the RLP loop may still send on this connection before it needs more credit.
    pub credit_bytes: u64,
    /// RLP packets sent in the current busy period: the position on the ladder.
    pub ladder_packets: u64,
    /// Memory that send streams use besides their bytes: records of sent and SACKed spans.
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
    /// Bytes that arrived more than once.
    pub duplicate_bytes: u64,
    /// RLP bytes refused because they would have needed too many separate spans or too much memory.
    pub refused_bytes: u64,
    /// RLP datagrams that opened.
    pub rlp_datagrams: u64,
    /// RLP datagrams that did not open, were replayed, or belong to a closed stream.
    pub rlp_discarded: u64,
    /// QUIC datagrams dropped because the answer could have exceeded the allowance of their address, which was not
    /// validated.
    pub unproven_discarded: u64,
    /// SACK frames sent.
    pub sacks: u64,
    /// Bytes stored for the application, in order or not.
    pub buffered_bytes: u64,
    /// Upper bound of their memory: with their buffers and the records of gaps.
    pub held_bytes: u64,
}
