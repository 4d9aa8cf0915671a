//! ICMP messages to senders whose packets the router cannot forward (RFC 792, RFC 4443).

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use etherparse::{Icmpv4Type, Icmpv6Type, PacketBuilder, icmpv4, icmpv4::DestUnreachableHeader, icmpv6};
use kickass::packet::Packet;

use super::routes::may_cross;

/// Most messages per second about packets from one port (RFC 4443 §2.4 f).
const PER_SECOND: u32 = 100;
/// Most messages in a burst.
const BURST: u32 = 20;
/// Hop limit of the messages.
const HOP_LIMIT: u8 = 64;
/// Longest IPv4 message (RFC 1812 §4.3.2.3).
const LEN_MAX_V4: usize = 576;
/// Longest IPv6 message (RFC 4443 §2.4 c).
const LEN_MAX_V6: usize = 1280;
const HEADERS_V4: usize = 20 + 8;
const HEADERS_V6: usize = 40 + 8;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Why a packet was not forwarded, as signalled to its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Its hop limit expired.
    HopLimit,
    /// It exceeds the MTU of its link and must not be fragmented.
    TooBig(u16),
    /// No port leads to its destination.
    NoRoute,
}

/// Writes messages, within the rate limit.
#[derive(Debug)]
pub(crate) struct Icmp {
    /// From which they are sent.
    pub(crate) addresses: Vec<IpAddr>,
    /// When the token bucket of each port is full again: no host takes away the messages of others.
    paid: Vec<Instant>,
}

impl Icmp {
    pub(crate) fn new(addresses: Vec<IpAddr>, ports: usize, now: Instant) -> Self {
        Self { addresses, paid: vec![now; ports] }
    }

    /// The message about a packet that entered at a port; `None` if none may be sent.
    pub(crate) fn message(
        &mut self,
        now: Instant,
        port: usize,
        packet: &Packet,
        trouble: Trouble,
    ) -> Option<Vec<u8>> {
        if !may_be_answered(packet) {
            return None;
        }
        let to = packet.source();
        let from = *self.addresses.iter().find(|address| address.is_ipv4() == to.is_ipv4())?;
        let cost = Duration::from_secs(1) / PER_SECOND;
        let paid = self.paid[port].max(now) + cost;
        if paid > now + cost * BURST {
            return None;
        }
        let bytes = write(from, to, packet.as_bytes(), trouble)?;
        self.paid[port] = paid;
        Some(bytes)
    }
}

/// Not about ICMP errors, fragments other than the leading one, or packets without a single sender and receiver (RFC 1122
/// §3.2.2, RFC 4443 §2.4 e).
fn may_be_answered(packet: &Packet) -> bool {
    let leading = packet.fragment().is_none_or(|fragment| fragment.offset == 0);
    leading && may_cross(packet) && !is_error(packet)
}

fn is_error(packet: &Packet) -> bool {
    let kind = packet.payload().first().copied();
    match packet.flow().protocol {
        // A message without a type is not a query.
        ICMP => kind.is_none_or(|kind| {
            ![icmpv4::TYPE_ECHO_REPLY, icmpv4::TYPE_ECHO_REQUEST, icmpv4::TYPE_TIMESTAMP].contains(&kind)
        }),
        // Behind extension headers the type is elsewhere. No message is sent then, to be safe from loops.
        ICMPV6 => packet.protocol() != ICMPV6 || kind.is_none_or(|kind| kind < icmpv6::TYPE_ECHO_REQUEST),
        _ => false,
    }
}

fn write(from: IpAddr, to: IpAddr, packet: &[u8], trouble: Trouble) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let kind = match trouble {
                Trouble::HopLimit => Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit),
                Trouble::TooBig(next_hop_mtu) => {
                    Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FragmentationNeeded {
                        next_hop_mtu,
                    })
                }
                Trouble::NoRoute => Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Network),
            };
            let quoted = &packet[..packet.len().min(LEN_MAX_V4 - HEADERS_V4)];
            PacketBuilder::ipv4(from.octets(), to.octets(), HOP_LIMIT)
                .icmpv4(kind)
                .write(&mut bytes, quoted)
                .ok()?;
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let kind = match trouble {
                Trouble::HopLimit => Icmpv6Type::TimeExceeded(icmpv6::TimeExceededCode::HopLimitExceeded),
                Trouble::TooBig(mtu) => Icmpv6Type::PacketTooBig { mtu: mtu.into() },
                Trouble::NoRoute => Icmpv6Type::DestinationUnreachable(icmpv6::DestUnreachableCode::NoRoute),
            };
            let quoted = &packet[..packet.len().min(LEN_MAX_V6 - HEADERS_V6)];
            PacketBuilder::ipv6(from.octets(), to.octets(), HOP_LIMIT)
                .icmpv6(kind)
                .write(&mut bytes, quoted)
                .ok()?;
        }
        _ => return None,
    }
    Some(bytes)
}
