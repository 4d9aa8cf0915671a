//! Boxes on a path that treat fragments in their own way, in virtual time.

use std::{collections::VecDeque, fmt, iter, net::IpAddr};

use etherparse::{IpFragOffset, IpNumber, Ipv4Header, Ipv6Header, defrag::IpDefragBuf};
use kickass::packet::{FRAGMENT_UNIT, Packet};
use serde::{Deserialize, Serialize};

/// What a box does with packets towards the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Middlebox {
    /// Forwards everything.
    #[default]
    None,
    /// Drops all fragments, as a stateless firewall that needs ports.
    DropFragments,
    /// Drops leading fragments with fewer bytes, as a firewall against tiny fragments (RFC 1858).
    DropShort {
        /// With the IP header.
        bytes: usize,
    },
    /// Forwards whole packets only, as a firewall that reassembles.
    Reassemble,
    /// Reassembles, and fragments again at the length of the longest fragment: connection tracking in a Linux router
    /// (`ip_do_fragment` with `frag_max_size`).
    Refragment,
    /// Reassembles, and fragments again at this length: a tunnel with a smaller MTU behind a firewall.
    Rewrite {
        /// Longest packet, with the IP header.
        bytes: usize,
    },
}

impl fmt::Display for Middlebox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "none"),
            Self::DropFragments => write!(f, "drops fragments"),
            Self::DropShort { bytes } => write!(f, "drops leading fragments below {bytes} bytes"),
            Self::Reassemble => write!(f, "reassembles"),
            Self::Refragment => write!(f, "reassembles, fragments at the longest"),
            Self::Rewrite { bytes } => write!(f, "reassembles, fragments at {bytes} bytes"),
        }
    }
}

/// Packets of which some fragments may be missing at once.
const PENDING: usize = 1024;

/// A box at work.
#[derive(Debug)]
pub struct Machine {
    kind: Middlebox,
    /// Packets of which fragments are missing, in the order of their latest fragments.
    pending: VecDeque<Pending>,
}

/// The fragments of one packet.
#[derive(Debug)]
struct Pending {
    source: IpAddr,
    identification: u32,
    payload: IpDefragBuf,
    /// IP total length of the longest.
    longest: usize,
}

impl Machine {
    /// A box without fragments.
    pub fn new(kind: Middlebox) -> Self {
        Self { kind, pending: VecDeque::new() }
    }

    /// The packets that leave when this one arrives, in order.
    pub fn handle(&mut self, packet: Packet) -> Vec<Packet> {
        let passes = match self.kind {
            Middlebox::None => true,
            Middlebox::DropFragments => packet.fragment().is_none(),
            Middlebox::DropShort { bytes } => packet.leading_len().is_none() || packet.total_len() >= bytes,
            Middlebox::Reassemble | Middlebox::Refragment | Middlebox::Rewrite { .. } => {
                let Some((whole, longest)) = self.reassemble(packet) else { return Vec::new() };
                return match self.kind {
                    Middlebox::Refragment => cut(whole, longest),
                    Middlebox::Rewrite { bytes } => cut(whole, bytes),
                    _ => vec![whole],
                };
            }
        };
        if passes { vec![packet] } else { Vec::new() }
    }

    /// The whole packet, once it is complete, and the length of the longest of its fragments. A fragment that
    /// contradicts earlier ones ends its packet.
    fn reassemble(&mut self, packet: Packet) -> Option<(Packet, usize)> {
        let len = packet.total_len();
        let Some(fragment) = packet.fragment() else { return Some((packet, len)) };
        let (source, identification) = (packet.source(), fragment.identification);
        let known = self
            .pending
            .iter()
            .position(|pending| (pending.source, pending.identification) == (source, identification));
        let mut pending = known.and_then(|at| self.pending.remove(at)).unwrap_or_else(|| {
            let payload = IpDefragBuf::new(IpNumber(packet.protocol()), Vec::new(), Vec::new());
            Pending { source, identification, payload, longest: 0 }
        });
        pending.longest = pending.longest.max(len);
        let offset = u16::try_from(fragment.offset / FRAGMENT_UNIT).ok()?;
        pending.payload.add(IpFragOffset::try_new(offset).ok()?, fragment.more, packet.payload()).ok()?;
        if pending.payload.is_complete() {
            return Some((whole(&packet, pending.payload)?, pending.longest));
        }
        self.pending.push_back(pending);
        if self.pending.len() > PENDING {
            self.pending.pop_front();
        }
        None
    }
}

/// The packet with this payload and the header of one of its fragments. Extension headers of IPv6 are left out.
fn whole(fragment: &Packet, payload: IpDefragBuf) -> Option<Packet> {
    let protocol = payload.ip_number();
    let (payload, _) = payload.take_bufs();
    let mut bytes = Vec::new();
    if fragment.is_ipv6() {
        let (mut header, _) = Ipv6Header::from_slice(fragment.as_bytes()).ok()?;
        header.next_header = protocol;
        header.set_payload_length(payload.len()).ok()?;
        header.write(&mut bytes).ok()?;
    } else {
        let (mut header, _) = Ipv4Header::from_slice(fragment.as_bytes()).ok()?;
        header.more_fragments = false;
        header.fragment_offset = IpFragOffset::ZERO;
        header.set_payload_len(payload.len()).ok()?;
        header.write(&mut bytes).ok()?;
    }
    bytes.extend(payload);
    Packet::parse(bytes).ok()
}

/// The packet in fragments of at most so many bytes. One that must not be fragmented stays whole.
fn cut(mut packet: Packet, longest: usize) -> Vec<Packet> {
    let mut parts: Vec<_> = iter::from_fn(|| packet.split_leading(longest, 0)).collect();
    parts.push(packet);
    parts
}

#[cfg(test)]
mod tests {
    use kickass::code::Code;
    use kickass_tools::probe::{
        message::{Form, ProbeMessage, Seen},
        question,
        report::ProbeReport,
        tally::SweepTally,
    };

    use super::*;
    use crate::net::fragments::BOXES;

    const FROM: &str = "10.93.0.1:1";
    const TO: &str = "10.93.2.1:4484";
    const IPV4_HEADER: usize = 20;

    /// A probe through a box: the receiver reassembles, and answers with the length in which the question arrived.
    fn probe(kind: Middlebox) -> ProbeReport {
        let (from, to) = (FROM.parse().unwrap(), TO.parse().unwrap());
        let mut machine = Machine::new(kind);
        let mut receiver = Machine::new(Middlebox::Reassemble);
        let mut tally = SweepTally::new(1, 1, IPV4_HEADER);
        for code in Code::all() {
            for form in [Form::Whole, Form::Fragmented] {
                let message = tally.question(form, code, 0);
                let Some(payload) = question::payload(&message, to) else { continue };
                let Some(packets) = question::packets(&message, &payload, from, to) else { continue };
                tally.asked(&message);
                let mut seen = Seen::Whole;
                for packet in packets.into_iter().flat_map(|packet| machine.handle(packet)) {
                    if let Some(len) = packet.leading_len() {
                        seen = Seen::Leading(len.try_into().unwrap());
                    }
                    if let Some((whole, _)) = receiver.reassemble(packet) {
                        let question = &whole.payload()[8..];
                        let message = ProbeMessage::parse_question(question).expect("an unchanged question");
                        assert_eq!(question, payload);
                        tally.heard(&message.answer(seen));
                    }
                }
            }
        }
        tally.report()
    }

    /// Lengths of leading fragments that arrive with their length.
    fn kept(report: &ProbeReport) -> Vec<usize> {
        let rows = report.lengths.iter().filter(|row| row.leading.kept > 0);
        rows.map(|row| row.length).collect()
    }

    #[test]
    fn whole_packets_pass_every_box() {
        for kind in BOXES {
            let report = probe(kind);
            assert!(report.lengths.iter().all(|row| row.whole.arrived == row.whole.sent), "{kind}");
        }
    }

    #[test]
    fn without_a_box_all_leading_fragments_arrive_with_their_lengths() {
        let report = probe(Middlebox::None);
        assert_eq!(report.verdict(), "Fragments survive this path with their lengths.");
        let sent = report.lengths.iter().filter(|row| row.fragmented.sent > 0).count();
        assert_eq!(kept(&report).len(), sent);
    }

    #[test]
    fn a_box_that_drops_fragments_is_named() {
        let report = probe(Middlebox::DropFragments);
        assert_eq!(report.verdict(), "No fragment survives this path: leave Don't Fragment set on it.");
        assert!(kept(&report).is_empty());
    }

    #[test]
    fn a_box_that_drops_short_leading_fragments_lets_the_others_through() {
        let report = probe(Middlebox::DropShort { bytes: 256 });
        // Lengths are 20 and a multiple of 8: 260 is the first that is not below 256.
        assert!(
            report.verdict().contains("Leading fragments below 260 bytes do not survive"),
            "{}",
            report.verdict()
        );
        assert_eq!(kept(&report).first(), Some(&260));
    }

    #[test]
    fn a_box_that_reassembles_hides_rates() {
        let report = probe(Middlebox::Reassemble);
        assert!(report.verdict().starts_with("Packets arrive reassembled"), "{}", report.verdict());
        assert!(report.lengths.iter().all(|row| row.fragmented.arrived == row.fragmented.sent));
        assert!(kept(&report).is_empty());
    }

    #[test]
    fn a_box_that_fragments_again_at_the_longest_keeps_only_long_leading_fragments() {
        let report = probe(Middlebox::Refragment);
        assert!(
            report.verdict().starts_with("Leading fragments arrive with other lengths"),
            "{}",
            report.verdict()
        );
        // Of 1480 bytes, the leading fragment is the longer one from 740 bytes of payload on.
        assert_eq!(kept(&report).first(), Some(&(744 + IPV4_HEADER)));
        assert!(report.lengths.iter().all(|row| row.fragmented.arrived == row.fragmented.sent));
    }

    #[test]
    fn a_box_that_rewrites_keeps_only_its_own_length() {
        let report = probe(Middlebox::Rewrite { bytes: 576 });
        assert!(
            report.verdict().starts_with("Leading fragments arrive with other lengths"),
            "{}",
            report.verdict()
        );
        assert_eq!(kept(&report), [552 + IPV4_HEADER]);
    }

    #[test]
    fn fragments_without_the_rest_are_forgotten() {
        let mut machine = Machine::new(Middlebox::Refragment);
        let (from, to) = (FROM.parse().unwrap(), TO.parse().unwrap());
        let code = Code::from_len(800).unwrap();
        for run in 0..3 * PENDING as u64 {
            let message = ProbeMessage { run, form: Form::Fragmented, code, attempt: (run % 30) as u8 };
            let payload = question::payload(&message, to).unwrap();
            let leading = question::packets(&message, &payload, from, to).unwrap().swap_remove(0);
            assert!(machine.handle(leading).is_empty());
        }
        assert!(machine.pending.len() <= PENDING);
    }
}
