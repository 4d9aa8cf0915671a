//! Queues in front of a link: the disciplines of [`rc3_queue`], over IP packets.
//!
//! Limits are in bytes of packets, IP headers included. A discipline passes every packet it drops, on arrival or later,
//! to `dropped`.

pub use rc3_queue::{CoDel, DropTail, FqCodel, FqCodelConfig, Levels, Queue, Queued, Routed, StrictPriority};

use crate::packet::{FlowKey, Packet};

impl Queued for Packet {
    fn bytes(&self) -> u64 {
        self.total_len() as u64
    }

    fn class(&self) -> u8 {
        self.dscp()
    }
}

impl Routed for Packet {
    fn flow_hash(&self, key: u64) -> u64 {
        let flow = self.flow();
        // The other fragments show neither ports nor a protocol behind extension headers, and must not be overtaken by
        // the leading one.
        let shared = FlowKey { protocol: self.protocol(), ..flow.without_ports() };
        if self.fragment().is_some() { shared.hash(key) } else { flow.hash(key) }
    }

    fn mark_congestion(&mut self) -> bool {
        self.mark_congestion()
    }
}
