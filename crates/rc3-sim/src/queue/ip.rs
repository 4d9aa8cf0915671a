//! What an IP router reads of a parcel: its flow, its fragments, its ECN bits.

use kickass::{
    packet::Flow,
    queue::Queued,
    signal::{Place, Subject},
};

use super::Packet;
use crate::{
    Stamped,
    agent::{Body, Parcel},
    host::{ip_of, port_of},
};

/// An IPv4 header without options, in bytes; each further fragment has one more.
pub(super) const HEADER: usize = 20;

const PROTOCOL_UDP: u8 = 17;
/// For experiments (RFC 3692).
const PROTOCOL_RCP: u8 = 253;

/// ECN bits of the IP header: the ends do not know it, and congestion was met (RFC 3168 §5).
const NOT_ECT: u8 = 0b00;
const CE: u8 = 0b11;

/// The flow of a parcel, as its addresses and ports tell it.
pub(super) fn flow(parcel: &Parcel) -> Flow {
    let port = port_of(parcel.flow);
    let (protocol, ports) = match parcel.body {
        Body::Udp { .. } => (PROTOCOL_UDP, Some((port, port))),
        Body::Rcp(_) => (PROTOCOL_RCP, None),
    };
    Flow { source: ip_of(parcel.from).into(), destination: ip_of(parcel.to).into(), protocol, ports }
}

/// A parcel as far as signals of rates are concerned. The fragments of one packet travel together, and what there is to
/// tell is told of the leading one.
pub(super) fn subject(packet: &Packet<Stamped<Parcel>>) -> Subject {
    let (leading, dont_fragment) = match packet.payload.payload().body {
        Body::Udp { leading, dont_fragment, .. } => (leading.map(usize::from), dont_fragment),
        Body::Rcp(_) => (None, true),
    };
    let payload_len = leading.unwrap_or_else(|| packet.size.saturating_sub(HEADER));
    Subject {
        total_len: payload_len + HEADER,
        payload_len,
        leading_min: 8,
        place: if leading.is_some() { Place::Leading } else { Place::Whole },
        dont_fragment,
        ipv6: false,
        fragment_header: false,
    }
}

/// What queues per flow read of a payload.
pub trait Routed {
    /// A hash of the flow it belongs to; `key` decides which flows meet.
    fn flow_hash(&self, key: u64) -> u64;

    /// Marks that it met congestion (RFC 3168 §5); whether its ends understand that.
    fn mark_congestion(&mut self) -> bool;
}

impl<T: Routed> Queued for Packet<Stamped<T>> {
    fn bytes(&self) -> u64 {
        self.size as u64
    }

    fn dscp(&self) -> u8 {
        self.level.get()
    }

    fn flow_hash(&self, key: u64) -> u64 {
        self.payload.payload().flow_hash(key)
    }

    fn mark_congestion(&mut self) -> bool {
        self.payload.payload_mut().mark_congestion()
    }
}

impl Routed for Parcel {
    fn flow_hash(&self, key: u64) -> u64 {
        flow(self).hash(key)
    }

    fn mark_congestion(&mut self) -> bool {
        match &mut self.body {
            Body::Udp { ecn, .. } if *ecn & CE != NOT_ECT => {
                *ecn |= CE;
                true
            }
            Body::Udp { .. } | Body::Rcp(_) => false,
        }
    }
}
