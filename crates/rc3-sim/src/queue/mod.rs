//! Queues in front of a link that only simulated networks have; the others are those of [`rc3_queue`].
//!
//! Units: sizes and limits are bytes on the wire, IP and UDP headers included. A packet that a link is
//! transmitting has left its queue and counts against no limit.

pub(crate) mod border;
pub(crate) mod by_packets;
pub(crate) mod cake;
pub(crate) mod codel;
pub(crate) mod drop_front;
pub(crate) mod ip;
pub(crate) mod kick_ass;
pub(crate) mod two_classes;
