//! The Rate Control Protocol (Dukkipati and McKeown): routers compute one fair rate per link, packets bring it to
//! the ends, senders pace at it.
//!
//! [`RcpQueue`] is the router's part, around any queue; the law itself is [`kickass::rcp`]. [`RcpHost`] is the part of
//! the ends. Every link of a path that can be a bottleneck wants an [`RcpQueue`], the uplinks of hosts with several
//! flows included: a rate is a promise of the links that wrote it down.
//!
//! A flow opens with SYN and SYN-ACK, as TCP does, and from then on sends at the rate granted, each packet its own
//! size over that rate after the one before. Every packet is acknowledged with the rate it was granted. A sender
//! that waits longer than a round trip for its next packet asks in between with a REF (ns-2 `rcp-host.cc`).

mod host;
mod queue;
mod receiver;
mod rtt;
mod sender;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use rc3_core::units::Span;

pub use host::RcpHost;
pub use queue::RcpQueue;

/// Bytes on the wire of a packet that carries none of the application: as TCP over IPv4.
const HEADER_BYTES: usize = 40;

/// What a packet of RCP carries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RcpHeader {
    /// What kind of packet it is.
    pub kind: RcpKind,
    /// On the way out the rate requested, lowered by each router; on the way back the rate granted. Bytes on the wire
    /// per second.
    pub rate: f64,
    /// The sender's latest round trip; zero before it has one, and on the way back.
    pub rtt: Duration,
    /// When the sender sent it, or on the way back the packet it answers (the time stamp of RFC 7323 §3).
    pub sent: Instant,
}

/// The kinds of packets RCP needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RcpKind {
    /// Opens a flow and requests a rate.
    Syn,
    /// Answers with the rate granted.
    SynAck,
    /// Bytes of the application, which ask for a rate too.
    Data(RcpSegment),
    /// Answers a segment with the rate granted.
    Ack {
        /// The segment.
        segment: RcpSegment,
        /// All that has come around it without a gap, so that a lost answer is made up for by the next (the first
        /// block of RFC 2018 §4).
        run: Span,
        /// The bytes from the first on that have come without a gap.
        received: u64,
    },
    /// Asks for a rate and carries nothing.
    Ref,
    /// Answers with the rate granted.
    RefAck,
}

impl RcpKind {
    /// Whether routers write their rate into it.
    pub fn asks(self) -> bool {
        matches!(self, Self::Syn | Self::Data(_) | Self::Ref)
    }

    /// Bytes of the application carried.
    pub fn payload(self) -> u32 {
        match self {
            Self::Data(segment) => segment.len,
            _ => 0,
        }
    }
}

/// Bytes of the application in one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RcpSegment {
    /// Counts the packets with data, those sent again as well.
    pub number: u64,
    /// First byte.
    pub offset: u64,
    /// How many.
    pub len: u32,
    /// Whether the flow ends with them.
    pub last: bool,
}

impl RcpSegment {
    /// First byte past the end.
    pub fn end(self) -> u64 {
        self.offset + u64::from(self.len)
    }
}
