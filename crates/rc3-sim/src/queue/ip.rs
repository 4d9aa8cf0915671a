//! What an IP router reads of a parcel: its flow, its fragments, its ECN bits.

use kickass::{
    packet::FlowKey,
    signal::{PacketPart, Subject},
};

use crate::{
    Routed, Waiting,
    agent::{Body, Parcel},
    host::{ip_of, port_of},
};

/// An IPv4 header without options, in bytes; each further fragment has one more.
pub(super) const HEADER: usize = 20;

const PROTOCOL_UDP: u8 = 17;
/// For experiments (RFC 3692 §2.1).
pub(crate) const PROTOCOL_RCP: u8 = 253;

/// ECN bits of the IP header: the ends do not know it, and congestion was met (RFC 3168 §5).
const NOT_ECT: u8 = 0b00;
const CE: u8 = 0b11;

/// The flow of a parcel, by its addresses and ports.
pub(super) fn flow(parcel: &Parcel) -> FlowKey {
    let port = port_of(parcel.flow);
    let (protocol, ports) = match parcel.body {
        Body::Udp { .. } => (PROTOCOL_UDP, Some((port, port))),
        Body::Rcp(_) => (PROTOCOL_RCP, None),
    };
    FlowKey { source: ip_of(parcel.from).into(), destination: ip_of(parcel.to).into(), protocol, ports }
}

/// A parcel as far as signals of rates are concerned. The fragments of one packet travel together, and this describes
/// the leading one.
pub(super) fn subject(packet: &Waiting<Parcel>) -> Subject {
    let (leading, dont_fragment) = match packet.payload.payload().body {
        Body::Udp { leading, dont_fragment, .. } => (leading.map(usize::from), dont_fragment),
        Body::Rcp(_) => (None, true),
    };
    let payload_len = leading.unwrap_or_else(|| packet.size.saturating_sub(HEADER));
    Subject {
        total_len: payload_len + HEADER,
        payload_len,
        leading_min: 8,
        place: if leading.is_some() { PacketPart::Leading } else { PacketPart::Whole },
        dont_fragment,
        ipv6: false,
        fragment_header: false,
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

#[cfg(test)]
pub(super) mod tests {
    use std::time::{Duration, Instant};

    use rc3_core::units::{Level, Rate};
    use rc3_queue::FqCodelConfig;

    use super::*;
    use crate::{
        Contents, FqCodel, Link, LinkConfig, Packet, Queue, Stamped,
        agent::{FlowId, HostId, RoutePosition, SchemeId},
    };

    pub(in crate::queue) fn parcel(flow: u32, ecn: u8) -> Packet<Parcel> {
        let body = Body::Udp { ecn, contents: Contents::new(&[0; 1472]), leading: None, dont_fragment: true };
        let (flow, scheme, progress) = (FlowId(flow), SchemeId(0), RoutePosition::default());
        let payload = Parcel { flow, scheme, from: HostId(0), to: HostId(1), progress, body };
        Packet { size: 1500, level: Level::PRIMARY, payload }
    }

    /// Twice as much as the link of 12 Mbit/s takes, for half a second; returns what arrived.
    fn overload(ecn: u8) -> (Link<Parcel>, Vec<Parcel>) {
        let start = Instant::now();
        let rate = Rate::from_bits_per_second(12_000_000);
        let queue = FqCodel::new(FqCodelConfig::default());
        let mut link = Link::new(LinkConfig { rate, ..LinkConfig::default() }, queue);
        let mut out = Vec::new();
        for nth in 0..1000 {
            let now = start + Duration::from_micros(500) * nth;
            link.send(now, parcel(0, ecn));
            // A sparse one among them.
            if nth % 100 == 50 {
                link.send(now, parcel(1, ecn));
            }
            out.extend(std::iter::from_fn(|| link.poll_output(now)));
        }
        let end = start + Duration::from_secs(10);
        out.extend(std::iter::from_fn(|| link.poll_output(end)));
        (link, out)
    }

    #[test]
    fn what_waits_for_too_long_is_marked_where_that_is_understood_and_else_dropped() {
        for ecn in [0, 2] {
            let (link, out) = overload(ecn);
            let total = link.stats().total();
            assert_eq!(
                total.dropped.packets + out.len() as u64,
                1010,
                "each is either reported as dropped or delivered"
            );
            let is_marked = |parcel: &&Parcel| matches!(parcel.body, Body::Udp { ecn: 3, .. });
            let marked = out.iter().filter(is_marked).count() as u64;
            let (signals, none) =
                if ecn == 0 { (total.dropped.packets, marked) } else { (marked, total.dropped.packets) };
            assert!(signals > 5 && none == 0, "ecn {ecn}: {signals} and {none}");
        }
    }

    #[test]
    fn both_loops_of_a_connection_are_one_flow() {
        let now = Instant::now();
        let mut queue = FqCodel::new(FqCodelConfig::default());
        for level in [Level::FIRST, Level::PRIMARY].repeat(3) {
            let Packet { size, payload, .. } = parcel(0, 0);
            let packet = Packet { size, level, payload: Stamped::new(now, payload) };
            queue.enqueue(now, packet, &mut |_| panic!("dropped"));
        }
        let levels: Vec<_> = std::iter::from_fn(|| queue.dequeue(now, &mut |_| panic!("dropped")))
            .map(|packet| packet.level)
            .collect();
        assert_eq!(levels, [Level::FIRST, Level::PRIMARY].repeat(3), "in order of arrival");
    }

    #[test]
    fn a_sparse_flow_does_not_wait_behind_a_fat_one() {
        let (_, out) = overload(0);
        let last = out.iter().rposition(|parcel| parcel.flow == FlowId(1)).unwrap();
        // It arrived as the 950th of a thousand, when some 475 had left.
        assert!(last < 500, "{last} of {}", out.len());
    }
}
