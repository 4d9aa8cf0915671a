//! The software of a host: flows to carry, parcels to send and receive, milestones to report.
//!
//! An agent is sans-IO like the transport it wraps: time is an argument, the world polls packets and timeouts, and no call
//! blocks.

use std::time::{Duration, Instant};

use rc3_core::{ConnectionStats, GuardStats};
use serde::{Deserialize, Serialize};

use crate::{Contents, Packet, rcp};

/// A host of the world, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostId(pub u32);

/// A flow of the world, counted from 0 in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FlowId(pub u32);

/// Which of the world's schemes a flow uses, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SchemeId(pub u16);

/// One transfer: a host connects, sends, and is done at the last byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Its name in the records.
    pub id: FlowId,
    /// When the sender connects, from the beginning of the world.
    pub at: Duration,
    /// The sender.
    pub from: HostId,
    /// The receiver.
    pub to: HostId,
    /// Bytes of the application.
    pub bytes: u64,
    /// The scheme that carries it.
    pub scheme: SchemeId,
    /// When the application hands its bytes over.
    pub writes: Writes,
}

impl Flow {
    /// The first flow of a world, at its beginning, with its first scheme, all bytes at once; change what is to be
    /// otherwise.
    pub fn new(from: HostId, to: HostId, bytes: u64) -> Self {
        let (id, scheme) = (FlowId(0), SchemeId(0));
        Self { id, at: Duration::ZERO, from, to, bytes, scheme, writes: Writes::AtOnce }
    }
}

/// When an application hands its bytes to the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// All of them as soon as there is a connection: a file.
    AtOnce,
    /// A first part, then one chunk after each interval (RC3 §5.1.2, application pacing).
    Chunked {
        /// Bytes of the first part.
        first: u64,
        /// Bytes of each chunk.
        chunk: u64,
        /// From one chunk to the next.
        every: Duration,
    },
    /// All of them at once; what has not arrived so long after the connect is given up.
    Until(Duration),
}

impl Writes {
    /// When the application gives up a flow that begins now.
    pub(crate) fn until(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Until(after) => Some(now + after),
            _ => None,
        }
    }

    /// Bytes written so long after the first ones, if there are so many.
    pub(crate) fn written(self, elapsed: Duration) -> u64 {
        match self {
            Self::Chunked { first, chunk, every } => {
                let chunks = u64::try_from(elapsed.as_nanos() / every.as_nanos().max(1)).unwrap_or(u64::MAX);
                first.saturating_add(chunk.max(1).saturating_mul(chunks))
            }
            _ => u64::MAX,
        }
    }
}

/// A packet between two hosts.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// The flow it belongs to.
    pub flow: FlowId,
    /// That flow's scheme.
    pub scheme: SchemeId,
    /// The host that sent it.
    pub from: HostId,
    /// The host it goes to.
    pub to: HostId,
    /// Its place on its route; agents set the default, the world updates it.
    pub progress: RoutePosition,
    /// The contents for the receiver.
    pub body: Body,
}

/// The place of a parcel on its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoutePosition {
    /// Index of its current link among the links of all routes.
    pub(crate) place: u32,
    /// Links it has taken.
    pub(crate) hops: u8,
}

/// What a parcel carries.
#[derive(Debug, Clone)]
pub enum Body {
    /// A UDP datagram of QUIC or RLP.
    Udp {
        /// ECN code point of the IP header.
        ecn: u8,
        /// The UDP payload.
        contents: Contents,
        /// If it is under way in fragments: bytes of IP payload in the leading one.
        leading: Option<u16>,
        /// Whether routers may not fragment it.
        dont_fragment: bool,
    },
    /// A packet of the RCP comparison. Boxed: moved on every link, a parcel costs what its largest body is long.
    Rcp(Box<rcp::RcpHeader>),
}

/// The software of a host.
pub trait Agent {
    /// Begins a flow of which this host is the sender.
    fn start(&mut self, now: Instant, flow: &Flow);

    /// Takes in a parcel addressed to this host.
    fn handle(&mut self, now: Instant, parcel: Parcel);

    /// When [`Self::handle_timeout`] wants to be called.
    fn poll_timeout(&self) -> Option<Instant>;

    /// A timeout has come.
    fn handle_timeout(&mut self, now: Instant);

    /// The next packet for the uplink, whose queue holds `backlog` bytes.
    fn poll_transmit(&mut self, now: Instant, backlog: u64) -> Option<Packet<Parcel>>;

    /// Whether there is more to send once the uplink's queue is shorter.
    fn waits_for_uplink(&self) -> bool {
        false
    }

    /// Counters of the sender of a flow of this host, where the transport has any and the flow is under way.
    fn sender_stats(&self, _flow: FlowId) -> Option<ConnectionStats> {
        None
    }

    /// The next thing a flow has reached.
    fn poll_event(&mut self) -> Option<FlowEvent>;
}

/// Something a flow has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEvent {
    /// Which flow.
    pub flow: FlowId,
    /// When.
    pub at: Instant,
    /// What.
    pub milestone: Milestone,
}

/// What a flow can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    /// The sender has sent the first bytes of the application.
    FirstData,
    /// The receiver has every byte.
    LastByte(ReceiverCounters),
    /// The sender knows that the receiver has every byte, and is done.
    LastAck(SenderCounters),
    /// The connection was given up.
    Failed,
}

/// Counters of a flow's receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReceiverCounters {
    /// Bytes that the primary loop delivered first.
    pub primary_bytes: u64,
    /// Bytes that RLP delivered first.
    pub rlp_bytes: u64,
}

/// Counters of a flow's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SenderCounters {
    /// Packets of the primary declared lost.
    pub lost_packets: u64,
    /// Packets of the primary sent.
    pub primary_packets: u64,
    /// Packets of RLP sent.
    pub rlp_packets: u64,
    /// Observations and decisions of guard mode; `None` in other modes, and not stored.
    #[serde(skip)]
    pub guard: Option<GuardStats>,
}
