//! A packet in a router: on its own, or a segment of a super-packet.

use std::sync::Arc;

use super::SuperPacket;
use crate::{
    packet::{Ecn, FlowKey, Indivisible, Packet},
    queue::{Queued, Routed},
    router::RouterPacket,
    signal::Subject,
};

/// A packet on its own, or one that shares the bytes of a super-packet.
#[derive(Debug)]
pub enum Segment {
    /// On its own.
    Whole(Packet),
    /// A segment.
    Part(SuperSegment),
}

/// A segment of a super-packet.
#[derive(Debug, Clone)]
pub struct SuperSegment {
    pub(super) of: Arc<SuperPacket>,
    pub(super) index: u32,
}

impl SuperSegment {
    /// All segments of a super-packet, in order.
    pub fn all(of: &Arc<SuperPacket>) -> impl Iterator<Item = Self> {
        // Fewer than a packet has bytes.
        (0..of.count() as u32).map(|index| Self { of: of.clone(), index })
    }

    /// IP total length.
    pub fn total_len(&self) -> usize {
        self.of.segment_len(self.index())
    }

    /// How many segments of its super-packet come after it.
    pub fn remaining(&self) -> usize {
        self.of.count() - 1 - self.index()
    }

    /// A copy as a packet with complete checksums.
    pub fn to_packet(&self) -> Packet {
        self.of.segment(self.index())
    }

    pub(super) fn payload_len(&self) -> usize {
        self.of.span(self.index(), 1).len()
    }

    pub(super) fn index(&self) -> usize {
        self.index as usize
    }
}

impl Segment {
    /// The packet, with complete checksums.
    pub fn into_packet(self) -> Packet {
        match self {
            Self::Whole(packet) => packet,
            Self::Part(part) => part.to_packet(),
        }
    }

    /// The packet, to change it alone.
    fn separate(&mut self) -> &mut Packet {
        if let Self::Part(part) = self {
            *self = Self::Whole(part.to_packet());
        }
        match self {
            Self::Whole(packet) => packet,
            Self::Part(_) => unreachable!("it was replaced"),
        }
    }

    /// The packet whose class and addresses it has.
    fn model(&self) -> &Packet {
        match self {
            Self::Whole(packet) => packet,
            Self::Part(part) => part.of.packet(),
        }
    }
}

impl From<Packet> for Segment {
    fn from(packet: Packet) -> Self {
        Self::Whole(packet)
    }
}

impl RouterPacket for Segment {
    fn subject(&self) -> Subject {
        match self {
            Self::Whole(packet) => Subject::of(packet),
            Self::Part(part) => part.of.subject(part.index()),
        }
    }

    fn flow(&self) -> FlowKey {
        match self {
            Self::Whole(packet) => packet.flow(),
            Self::Part(part) => part.of.flow,
        }
    }

    fn split(&mut self, lead: usize, identification: u32) -> Result<Self, Indivisible> {
        self.separate().split(lead, identification).map(Self::Whole)
    }
}

impl Queued for Segment {
    fn bytes(&self) -> u64 {
        match self {
            Self::Whole(packet) => packet.bytes(),
            Self::Part(part) => part.total_len() as u64,
        }
    }

    fn class(&self) -> u8 {
        self.model().dscp()
    }
}

impl Routed for Segment {
    fn flow_hash(&self, key: u64) -> u64 {
        match self {
            Self::Whole(packet) => packet.flow_hash(key),
            Self::Part(part) => part.of.flow.hash(key),
        }
    }

    fn mark_congestion(&mut self) -> bool {
        match self.model().ecn() {
            Ecn::NotEct => false,
            Ecn::Ce => true,
            Ecn::Ect0 | Ecn::Ect1 => self.separate().mark_congestion(),
        }
    }
}
