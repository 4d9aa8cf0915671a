//! Super-packets: up to 64 KB of one TCP or UDP flow under one header, as hosts hand them to devices that segment (TSO,
//! USO) or only complete checksums.
//!
//! A super-packet stands for its segments, the packets that the device would have sent. A router queues, counts,
//! signals and delays each [`Segment`] as a packet of its own, but the segments share the bytes of the super-packet
//! until one has to differ. Neighbours that leave together form a [`SegmentRun`], which is a super-packet again.
//!
//! Headers say what remains to be done ([`Offload`]) and come from the kernel, but follow from what hosts send: they are
//! checked against the packet, and a contradiction is [`Malformed`](crate::packet::Malformed).

mod account;
mod run;
mod segment;
mod super_packet;

pub use account::Account;
use account::Charge;
pub use run::SegmentRun;
pub use segment::{Segment, SuperSegment};
pub use super_packet::{DevicePacket, Offload, PartialChecksum, SuperPacket};
