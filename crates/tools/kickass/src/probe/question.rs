//! A question as IP packets.

use std::net::SocketAddr;

use etherparse::{
    IpFragOffset, IpHeaders, Ipv4Header, Ipv6FragmentHeader, Ipv6Header, PacketBuilder, ip_number,
};
use kickass::packet::Packet;

use super::message::{Form, ProbeMessage};

/// IP length of a fragmented question: the longest that fits into an Ethernet frame.
const TOTAL_LEN: usize = 1500;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const FRAGMENT_HEADER: usize = 8;
const UDP_HEADER: usize = 8;
const HOP_LIMIT: u8 = 64;

/// Header bytes of a leading fragment, in the IP version of `to`.
pub fn headers(to: SocketAddr) -> usize {
    if to.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER + FRAGMENT_HEADER }
}

/// The forms of questions for `to`.
pub fn forms(to: SocketAddr) -> &'static [Form] {
    match to.is_ipv4() {
        true => &[Form::Whole, Form::Fragmented],
        false => &[Form::Whole, Form::Atomic, Form::Fragmented],
    }
}

/// Length of the UDP payload with which the packet, or its leading fragment, is as long as a leading fragment with this
/// code: [`headers`] plus the code. `None` if the question does not fit into that, or that not into an Ethernet frame.
pub fn payload(message: &ProbeMessage, to: SocketAddr) -> Option<Vec<u8>> {
    let leading = headers(to) + message.code.payload_len();
    let total_len = if message.form == Form::Fragmented { TOTAL_LEN } else { leading };
    let own = match (message.form, to.is_ipv4()) {
        (Form::Whole, false) => IPV6_HEADER,
        _ => headers(to),
    };
    let len = total_len.checked_sub(own + UDP_HEADER)?;
    (leading <= TOTAL_LEN && len >= ProbeMessage::LEN).then(|| message.question(len))
}

/// All packets of a question in the order of sending. `None` if this form is impossible.
pub fn packets(
    message: &ProbeMessage,
    payload: &[u8],
    from: SocketAddr,
    to: SocketAddr,
) -> Option<Vec<Packet>> {
    let code = message.code;
    let ip = match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            let addresses = (from.ip().octets(), to.ip().octets());
            let mut header = Ipv4Header::new(0, HOP_LIMIT, ip_number::UDP, addresses.0, addresses.1).ok()?;
            header.dont_fragment = message.form == Form::Whole;
            header.identification = message.identification();
            IpHeaders::Ipv4(header, Default::default())
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            let (source, destination) = (from.ip().octets(), to.ip().octets());
            let header = Ipv6Header { hop_limit: HOP_LIMIT, source, destination, ..Ipv6Header::default() };
            let identification = message.identification().into();
            let whole = Ipv6FragmentHeader::new(ip_number::UDP, IpFragOffset::ZERO, false, identification);
            let fragment = (message.form != Form::Whole).then_some(whole);
            IpHeaders::Ipv6(header, etherparse::Ipv6Extensions { fragment, ..Default::default() })
        }
        _ => return None,
    };
    let mut bytes = Vec::new();
    PacketBuilder::ip(ip).udp(from.port(), to.port()).write(&mut bytes, payload).ok()?;
    let mut leading = Packet::parse(bytes).ok()?;
    if message.form != Form::Fragmented {
        return Some(vec![leading]);
    }
    // The longest code leaves no second fragment. The identification is in the packet.
    let rest = leading.split(code.payload_len(), 0).ok()?;
    Some(vec![leading, rest])
}

#[cfg(test)]
mod tests {
    use kickass::{code::Code, packet::Fragment};

    use super::*;

    fn question(message: &ProbeMessage, from: &str, to: &str) -> Option<Vec<Packet>> {
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        packets(message, &payload(message, to)?, from, to)
    }

    #[test]
    fn packets_and_leading_fragments_are_as_long_as_their_codes_and_headers() {
        for (from, to, headers) in [("10.0.0.1:1", "10.0.0.2:2", 20), ("[fd00::1]:1", "[fd00::2]:2", 48)] {
            for &form in forms(to.parse().unwrap()) {
                let mut asked = 0;
                for code in Code::all() {
                    let Some(packets) = question(&ProbeMessage { run: 1, form, code, attempt: 0 }, from, to)
                    else {
                        continue;
                    };
                    asked += 1;
                    let leading = &packets[0];
                    assert_eq!(leading.total_len(), headers + code.payload_len(), "{form:?}");
                    assert_eq!(leading.has_fragment_header(), headers == 48 && form != Form::Whole);
                    assert_eq!(packets.len(), if form == Form::Fragmented { 2 } else { 1 });
                    if form == Form::Fragmented {
                        assert_eq!(leading.leading_len(), Some(code.payload_len()));
                        let lens: usize = packets.iter().map(|part| part.payload().len()).sum();
                        assert_eq!(lens, TOTAL_LEN - headers);
                    } else {
                        let more = leading.fragment().is_some_and(|Fragment { more, .. }| more);
                        assert!(!more && leading.leading_len().is_none());
                    }
                }
                // All except the shortest and the longest, and in IPv6 except those longer than an Ethernet frame.
                let held = (TOTAL_LEN - headers - 24) / 8 + 1;
                assert!((held - 2..=held).contains(&asked), "{form:?}: {asked} of {held}");
            }
        }
    }

    #[test]
    fn addresses_are_of_one_version() {
        let message = ProbeMessage { run: 1, form: Form::Whole, code: Code::MAX, attempt: 0 };
        assert!(question(&message, "10.0.0.1:1", "[fd00::2]:2").is_none());
    }
}
