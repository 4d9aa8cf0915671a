//! What a host runs, and what it says and hears: flows to carry, parcels to send, milestones to report.
//!
//! An agent is sans-IO like the transport it wraps: it is told the time, asked for packets and timeouts, and never
//! waits.

use std::time::{Duration, Instant};

use rc3_core::{ConnectionStats, GuardStats};

use crate::{Contents, Packet, rcp};

/// A host of the world, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub u32);

/// A flow of the world, counted from 0 in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u32);

/// Which of the world's schemes a flow uses, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SchemeId(pub u16);

/// One transfer: somebody connects, sends, and is done at the last byte.
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
    /// What carries it.
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
    /// How far it is; agents begin with the default, the world does the rest.
    pub progress: Progress,
    /// What the other end gets.
    pub body: Body,
}

/// How far a parcel is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Where among the world's ways the link is that it takes.
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
    Rcp(Box<rcp::Header>),
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
    LastByte(Received),
    /// The sender knows that the receiver has every byte, and is done.
    LastAck(Sent),
    /// The connection was given up.
    Failed,
}

/// What the receiver of a flow counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// Bytes the primary loop brought first.
    pub primary_bytes: u64,
    /// Bytes RLP brought first.
    pub rlp_bytes: u64,
}

/// What the sender of a flow counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Packets of the primary declared lost.
    pub lost_packets: u64,
    /// Packets of the primary sent.
    pub primary_packets: u64,
    /// Packets of RLP sent.
    pub rlp_packets: u64,
    /// What the guard has seen and decided; `None` when there is none.
    pub guard: Option<GuardStats>,
}
