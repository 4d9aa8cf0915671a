//! The messages of a [`Link`](super::link::Link): datagrams on their way to the predecessor, and its reports.
//!
//! Both ends are processes of one host and perhaps of two versions of the program, so the hand-over names the version of
//! this format. Numbers are big endian. A message is one of these:
//!
//! ```text
//! 1  datagrams, for each: offer (8, 0 for none), ECN (1), remote address (16), port (2),
//!    flow (4) and scope (4), local address (16, :: if unknown), leading length (2, 0 if unknown), age in microseconds
//!    (4, all ones if unknown), length (2), the datagram; an IPv4 address is an IPv4-mapped one
//! 2  whether a further successor reads the port (1)
//! 3  a claim: offer (8), claimed (1)
//! 4  settled
//! ```
//!
//! Invariant: bytes that are no such message are an error, and never cost more than their own length.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
    time::{Duration, Instant},
};

use bytes::{Buf, BufMut, BytesMut, TryGetError};
use rc3_core::{DatagramMeta, Detour, FromPredecessor};

use super::Message;

const DATAGRAMS: u8 = 1;
const READS: u8 = 2;
const CLAIM: u8 = 3;
const SETTLED: u8 = 4;

const ECN_MAX: u8 = 3;

/// Bytes beside the datagram in an entry.
const ENTRY_HEADER: usize = 8 + 1 + 16 + 2 + 4 + 4 + 16 + 2 + 4 + 2;

/// From this length on a message takes no further entry: it then has about as many datagrams as one batch of a socket.
const FULL: usize = 48 << 10;

/// The longest message: one that was almost full, and the longest datagram.
pub(super) const MESSAGE_MAX: usize = FULL + ENTRY_HEADER + u16::MAX as usize;

/// No process leaves a message unread for longer without being useless as a predecessor.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl From<TryGetError> for Malformed {
    fn from(_: TryGetError) -> Self {
        Self
    }
}

/// A message that waits to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    /// When it was begun, if it takes datagrams.
    begun: Option<Instant>,
}

impl Outgoing {
    /// A message of datagrams.
    pub(super) fn datagrams(now: Instant) -> Self {
        let mut bytes = Vec::with_capacity(FULL);
        bytes.put_u8(DATAGRAMS);
        Self { bytes, begun: Some(now) }
    }

    /// That the successor has handed the port on, or has it again.
    pub(super) fn handed_on(handed_on: bool) -> Self {
        Self::whole(vec![READS, handed_on.into()])
    }

    /// A report of the predecessor.
    pub(super) fn report(report: FromPredecessor) -> Self {
        Self::whole(match report {
            FromPredecessor::Settled => vec![SETTLED],
            FromPredecessor::Claim { offer, claimed } => {
                let mut bytes = vec![CLAIM];
                bytes.put_u64(offer);
                bytes.put_u8(claimed.into());
                bytes
            }
        })
    }

    fn whole(bytes: Vec<u8>) -> Self {
        Self { bytes, begun: None }
    }

    /// Whether the next datagram belongs into it.
    pub(super) fn has_room(&self) -> bool {
        self.begun.is_some() && self.bytes.len() < FULL
    }

    /// Adds a datagram.
    pub(super) fn push(&mut self, detour: &Detour) {
        let Detour { meta, datagram, offer } = detour;
        let Ok(len) = u16::try_from(datagram.len()) else { return };
        let (flow, scope) = match meta.remote {
            SocketAddr::V4(_) => (0, 0),
            SocketAddr::V6(remote) => (remote.flowinfo(), remote.scope_id()),
        };
        let arrived = self.begun.zip(meta.arrived);
        let age = arrived.map(|(begun, arrived)| begun.saturating_duration_since(arrived).as_micros());
        let out = &mut self.bytes;
        out.put_u64(offer.unwrap_or_default());
        out.put_u8(meta.ecn & ECN_MAX);
        out.put_u128(ipv6_bits(meta.remote.ip()));
        out.put_u16(meta.remote.port());
        out.put_u32(flow);
        out.put_u32(scope);
        out.put_u128(meta.local_ip.map_or(0, ipv6_bits));
        out.put_u16(meta.leading_len.unwrap_or_default());
        out.put_u32(age.and_then(|age| age.try_into().ok()).unwrap_or(u32::MAX));
        out.put_u16(len);
        out.put_slice(datagram);
    }
}

fn ipv6_bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// Reads a message that has arrived `now`: its datagrams count as older when it was written than they were, by the time
/// that it was under way.
///
/// # Errors
/// [`Malformed`] if it is none.
pub(super) fn parse(mut bytes: &[u8], now: Instant) -> Result<Message, Malformed> {
    match bytes.try_get_u8()? {
        DATAGRAMS => {
            let mut detours = Vec::new();
            while !bytes.is_empty() {
                detours.push(parse_datagram(&mut bytes, now)?);
            }
            Ok(Message::Datagrams(detours))
        }
        READS => whole(Message::HandedOn(parse_bool(&mut bytes)?), bytes),
        CLAIM => {
            let offer = bytes.try_get_u64()?;
            let claimed = parse_bool(&mut bytes)?;
            whole(Message::Report(FromPredecessor::Claim { offer, claimed }), bytes)
        }
        SETTLED => whole(Message::Report(FromPredecessor::Settled), bytes),
        _ => Err(Malformed),
    }
}

/// The message, if nothing is left behind it.
fn whole(message: Message, rest: &[u8]) -> Result<Message, Malformed> {
    if rest.is_empty() { Ok(message) } else { Err(Malformed) }
}

fn parse_bool(bytes: &mut &[u8]) -> Result<bool, Malformed> {
    match bytes.try_get_u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

fn parse_datagram(bytes: &mut &[u8], now: Instant) -> Result<Detour, Malformed> {
    let offer = bytes.try_get_u64()?;
    let ecn = bytes.try_get_u8()?;
    if ecn > ECN_MAX {
        return Err(Malformed);
    }
    let (ip, port) = (Ipv6Addr::from_bits(bytes.try_get_u128()?), bytes.try_get_u16()?);
    let (flow, scope) = (bytes.try_get_u32()?, bytes.try_get_u32()?);
    let remote = match ip.to_ipv4_mapped() {
        Some(ip) => SocketAddr::from((ip, port)),
        None => SocketAddrV6::new(ip, port, flow, scope).into(),
    };
    let local_ip = Some(Ipv6Addr::from_bits(bytes.try_get_u128()?)).filter(|ip| !ip.is_unspecified());
    let leading_len = Some(bytes.try_get_u16()?).filter(|&len| len != 0);
    let age = Some(bytes.try_get_u32()?).filter(|&age| age != u32::MAX);
    let age = age.map(|age| Duration::from_micros(age.into()).min(AGE_MAX));
    let len = usize::from(bytes.try_get_u16()?);
    let datagram = BytesMut::from(bytes.get(..len).ok_or(Malformed)?);
    bytes.advance(len);
    let meta = DatagramMeta {
        remote,
        local_ip: local_ip.map(|ip| ip.to_canonical()),
        ecn,
        leading_len,
        arrived: age.and_then(|age| now.checked_sub(age)),
    };
    Ok(Detour { meta, datagram, offer: (offer != 0).then_some(offer) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Instant {
        Instant::now() + Duration::from_secs(100)
    }

    type Marks = (u8, Option<u16>, Option<u32>, Option<u64>);

    fn detour(
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        marks: Marks,
        datagram: &[u8],
        now: Instant,
    ) -> Detour {
        let (ecn, leading_len, age, offer) = marks;
        let arrived = age.map(|age| now - Duration::from_micros(age.into()));
        let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
        let local_ip =
            local_ip.map(|ip| ip.to_canonical()).filter(|ip| *ip != IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let leading_len = leading_len.filter(|&len| len != 0);
        let meta = DatagramMeta { remote, local_ip, ecn: ecn & 3, leading_len, arrived };
        Detour { meta, datagram: datagram.into(), offer: offer.filter(|&offer| offer != 0) }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            entries in prop::collection::vec(
                (
                    any::<SocketAddr>(),
                    any::<Option<IpAddr>>(),
                    any::<(u8, Option<u16>)>(),
                    prop::option::of(0..1_000_000_u32),
                    any::<Option<u64>>(),
                    prop::collection::vec(any::<u8>(), 0..1500),
                ),
                0..20,
            ),
        ) {
            let now = now();
            let detours: Vec<_> = entries
                .iter()
                .map(|(remote, local, (ecn, leading), age, offer, datagram)| {
                    detour(*remote, *local, (*ecn, *leading, *age, *offer), datagram, now)
                })
                .collect();
            let mut message = Outgoing::datagrams(now);
            detours.iter().for_each(|detour| message.push(detour));
            let read = parse(&message.bytes, now);
            prop_assert_eq!(read, Ok(Message::Datagrams(detours)));
        }

        #[test]
        fn junk_is_an_error_or_a_message_of_its_length(
            first in 0..6_u8,
            mut junk in prop::collection::vec(any::<u8>(), 0..4000),
        ) {
            if let Some(byte) = junk.first_mut() {
                *byte = first;
            }
            match parse(&junk, now()) {
                Ok(Message::Datagrams(detours)) => {
                    prop_assert!(detours.iter().map(|detour| detour.datagram.len() + ENTRY_HEADER).sum::<usize>() <= junk.len());
                }
                Ok(Message::Report(_) | Message::HandedOn(_)) => prop_assert!(junk.len() <= 10),
                Err(Malformed) => {}
            }
        }

        #[test]
        fn a_message_that_is_cut_is_an_error(cut in 2..300_usize) {
            let now = now();
            let mut message = Outgoing::datagrams(now);
            let remote = ([192, 0, 2, 1], 9).into();
            message.push(&detour(remote, None, (1, Some(3), Some(9), Some(4)), &[7; 300], now));
            prop_assert_eq!(parse(&message.bytes[..cut], now), Err(Malformed));
        }
    }

    #[test]
    fn reports_are_read_as_written() {
        for sent in [
            FromPredecessor::Settled,
            FromPredecessor::Claim { offer: 7, claimed: true },
            FromPredecessor::Claim { offer: u64::MAX, claimed: false },
        ] {
            assert_eq!(parse(&Outgoing::report(sent).bytes, now()), Ok(Message::Report(sent)));
        }
        for on in [false, true] {
            assert_eq!(parse(&Outgoing::handed_on(on).bytes, now()), Ok(Message::HandedOn(on)));
        }
        assert_eq!(parse(&[READS, 2], now()), Err(Malformed));
        assert_eq!(parse(&[SETTLED, 0], now()), Err(Malformed));
    }

    #[test]
    fn no_message_is_longer_than_a_receiver_has_room_for() {
        let now = now();
        let mut message = Outgoing::datagrams(now);
        let remote = "[2001:db8::1]:9".parse().unwrap();
        let local = "2001:db8::2".parse().ok();
        let longest = detour(remote, local, (3, Some(1), Some(1), Some(1)), &[7; u16::MAX as usize], now);
        let short = detour(remote, local, (3, Some(1), Some(1), Some(1)), &[], now);
        while message.has_room() {
            message.push(&short);
        }
        message.bytes.truncate(FULL - 1);
        message.push(&longest);
        assert!(message.bytes.len() <= MESSAGE_MAX);
    }
}
