//! A packet between the port where it entered and the one where it leaves.

use std::time::Instant;

use kickass::{
    offload::Segment,
    packet::{FlowKey, Indivisible},
    queue::{Queued, Routed},
    router::RouterPacket,
    signal::Subject,
};

/// A packet, when it arrived, and at which port.
#[derive(Debug)]
pub(crate) struct Passing {
    pub(crate) since: Instant,
    /// Number of the port where it entered.
    pub(crate) from: usize,
    pub(crate) packet: Segment,
}

impl RouterPacket for Passing {
    fn subject(&self) -> Subject {
        self.packet.subject()
    }

    fn flow(&self) -> FlowKey {
        self.packet.flow()
    }

    fn split(&mut self, lead: usize, identification: u32) -> Result<Self, Indivisible> {
        let packet = self.packet.split(lead, identification)?;
        Ok(Self { packet, ..*self })
    }
}

impl Queued for Passing {
    fn bytes(&self) -> u64 {
        self.packet.bytes()
    }

    fn class(&self) -> u8 {
        self.packet.class()
    }
}

impl Routed for Passing {
    fn flow_hash(&self, key: u64) -> u64 {
        self.packet.flow_hash(key)
    }

    fn mark_congestion(&mut self) -> bool {
        self.packet.mark_congestion()
    }
}
