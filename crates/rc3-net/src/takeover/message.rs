//! The messages of a [`Link`](super::link::Link): datagrams on their way to the predecessor, and its reports.
//!
//! Both ends are processes of one host and perhaps of two versions of the program, so the hand-over names the version of
//! this format. Numbers are big endian. A message is one of these:
//!
//! ```text
//! 1  datagrams: the time of sending (8), then for each: offer (8, 0 for none), flags (1), remote port (2),
//!    address (4, or 16 + flow 4 + scope 4), local address (0, 4 or 16), leading length (2, if known),
//!    age (4 bytes, microseconds, if known), length (2), the datagram
//! 2  whether a further successor reads the port (1)
//! 3  a claim: offer (8), claimed (1)
//! 4  settled
//! ```
//!
//! Invariant: bytes that are no such message are an error, and never cost more than their own length.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    time::{Duration, Instant},
};

use bytes::{Buf, BufMut, BytesMut, TryGetError};
use rc3_core::{DatagramMeta, Detour, FromPredecessor};

use super::received::Message;
use crate::workers::QUIC_BITS;

const DATAGRAMS: u8 = 1;
const READS: u8 = 2;
const CLAIM: u8 = 3;
const SETTLED: u8 = 4;

/// The flags of a datagram; the two lowest bits are ECN.
const ECN: u8 = 0x03;
const REMOTE_IPV6: u8 = 0x04;
const LOCAL_IPV4: u8 = 0x08;
const LOCAL_IPV6: u8 = 0x10;
const LEADING: u8 = 0x20;
const ARRIVED: u8 = 0x40;

/// Most bytes beside the datagram in an entry.
const ENTRY_HEADER_MAX: usize = 8 + 1 + 2 + 24 + 16 + 2 + 4 + 2;

/// From this length on a message takes no further entry: it then has about as many datagrams as one batch of a socket.
const FULL: usize = 48 << 10;

/// The longest message: one that was almost full, and the longest datagram.
pub(super) const MESSAGE_MAX: usize = FULL + ENTRY_HEADER_MAX + u16::MAX as usize;

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

/// The clock of this process beside the one that all processes of the host share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    pub(super) now: Instant,
    /// Nanoseconds.
    pub(super) shared: u64,
}

/// A message of datagrams that is being written.
#[derive(Debug)]
pub(super) struct Draft {
    bytes: Vec<u8>,
    begun: Instant,
    /// QUIC and RLP datagrams in it.
    pub(super) count: Count,
}

/// A number of datagrams of each loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count {
    pub(super) primary: u64,
    pub(super) rlp: u64,
}

impl Count {
    pub(super) fn add(&mut self, datagram: &[u8]) {
        let is_rlp = datagram.first().is_some_and(|first| first & QUIC_BITS == 0);
        *if is_rlp { &mut self.rlp } else { &mut self.primary } += 1;
    }
}

impl Draft {
    pub(super) fn new(clocks: Clocks) -> Self {
        let mut bytes = Vec::with_capacity(FULL);
        bytes.put_u8(DATAGRAMS);
        bytes.put_u64(clocks.shared);
        Self { bytes, begun: clocks.now, count: Count::default() }
    }

    /// Whether the next entry belongs into another message.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a datagram.
    pub(super) fn push(&mut self, detour: &Detour) {
        let Detour { meta, datagram, offer } = detour;
        let Ok(len) = u16::try_from(datagram.len()) else { return };
        self.count.add(datagram);
        let out = &mut self.bytes;
        out.put_u64(offer.unwrap_or_default());
        let local = match meta.local_ip {
            None => 0,
            Some(IpAddr::V4(_)) => LOCAL_IPV4,
            Some(IpAddr::V6(_)) => LOCAL_IPV6,
        };
        out.put_u8(
            meta.ecn & ECN
                | if meta.remote.is_ipv6() { REMOTE_IPV6 } else { 0 }
                | local
                | if meta.leading_len.is_some() { LEADING } else { 0 }
                | if meta.arrived.is_some() { ARRIVED } else { 0 },
        );
        out.put_u16(meta.remote.port());
        match meta.remote {
            SocketAddr::V4(remote) => out.put_slice(&remote.ip().octets()),
            SocketAddr::V6(remote) => {
                out.put_slice(&remote.ip().octets());
                out.put_u32(remote.flowinfo());
                out.put_u32(remote.scope_id());
            }
        }
        match meta.local_ip {
            None => {}
            Some(IpAddr::V4(local)) => out.put_slice(&local.octets()),
            Some(IpAddr::V6(local)) => out.put_slice(&local.octets()),
        }
        if let Some(leading) = meta.leading_len {
            out.put_u16(leading);
        }
        if let Some(arrived) = meta.arrived {
            let age = self.begun.saturating_duration_since(arrived);
            out.put_u32(age.as_micros().try_into().unwrap_or(u32::MAX));
        }
        out.put_u16(len);
        out.put_slice(datagram);
    }
}

/// That the successor has handed the port on, or has it again.
pub(super) fn handed_on(handed_on: bool) -> Vec<u8> {
    vec![READS, handed_on.into()]
}

/// A report of the predecessor.
pub(super) fn report(report: FromPredecessor) -> Vec<u8> {
    match report {
        FromPredecessor::Settled => vec![SETTLED],
        FromPredecessor::Claim { offer, claimed } => {
            let mut bytes = vec![CLAIM];
            bytes.put_u64(offer);
            bytes.put_u8(claimed.into());
            bytes
        }
    }
}

/// Reads a message.
///
/// # Errors
/// [`Malformed`] if it is none.
pub(super) fn parse(mut bytes: &[u8], clocks: Clocks) -> Result<Message, Malformed> {
    match bytes.try_get_u8()? {
        DATAGRAMS => {
            let shared = bytes.try_get_u64()?;
            let sent = Duration::from_nanos(clocks.shared.saturating_sub(shared));
            let sent = clocks.now.checked_sub(sent.min(AGE_MAX)).unwrap_or(clocks.now);
            let mut detours = Vec::new();
            while !bytes.is_empty() {
                detours.push(parse_datagram(&mut bytes, sent)?);
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

fn parse_datagram(bytes: &mut &[u8], sent: Instant) -> Result<Detour, Malformed> {
    let offer = bytes.try_get_u64()?;
    let flags = bytes.try_get_u8()?;
    let has = |flag: u8| flags & flag != 0;
    if flags & 0x80 != 0 || has(LOCAL_IPV4) && has(LOCAL_IPV6) {
        return Err(Malformed);
    }
    let port = bytes.try_get_u16()?;
    let remote = if has(REMOTE_IPV6) {
        let ip = parse_ipv6(bytes)?;
        let (flow, scope) = (bytes.try_get_u32()?, bytes.try_get_u32()?);
        SocketAddrV6::new(ip, port, flow, scope).into()
    } else {
        SocketAddr::new(parse_ipv4(bytes)?.into(), port)
    };
    let local_ip = if has(LOCAL_IPV4) {
        Some(parse_ipv4(bytes)?.into())
    } else if has(LOCAL_IPV6) {
        Some(parse_ipv6(bytes)?.into())
    } else {
        None
    };
    let leading_len = if has(LEADING) { Some(bytes.try_get_u16()?) } else { None };
    let arrived = if has(ARRIVED) {
        let age = Duration::from_micros(bytes.try_get_u32()?.into());
        sent.checked_sub(age.min(AGE_MAX))
    } else {
        None
    };
    let len = usize::from(bytes.try_get_u16()?);
    let datagram = BytesMut::from(bytes.get(..len).ok_or(Malformed)?);
    bytes.advance(len);
    let meta = DatagramMeta { remote, local_ip, ecn: flags & ECN, leading_len, arrived };
    Ok(Detour { meta, datagram, offer: (offer != 0).then_some(offer) })
}

fn parse_ipv4(bytes: &mut &[u8]) -> Result<Ipv4Addr, Malformed> {
    Ok(bytes.try_get_u32()?.into())
}

fn parse_ipv6(bytes: &mut &[u8]) -> Result<Ipv6Addr, Malformed> {
    Ok(bytes.try_get_u128()?.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clocks() -> Clocks {
        Clocks { now: Instant::now() + Duration::from_secs(100), shared: 5_000_000_000 }
    }

    fn later(clocks: Clocks, by: Duration) -> Clocks {
        Clocks { now: clocks.now + by, shared: clocks.shared + by.as_nanos() as u64 }
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
            delay in 0..1_000_u64,
        ) {
            let clocks = clocks();
            let detours: Vec<_> = entries
                .iter()
                .map(|(remote, local, (ecn, leading), age, offer, datagram)| {
                    detour(*remote, *local, (*ecn, *leading, *age, *offer), datagram, clocks.now)
                })
                .collect();
            let mut draft = Draft::new(clocks);
            detours.iter().for_each(|detour| draft.push(detour));
            let read = parse(draft.bytes(), later(clocks, Duration::from_millis(delay)));
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
            match parse(&junk, clocks()) {
                Ok(Message::Datagrams(detours)) => {
                    prop_assert!(detours.iter().map(|detour| detour.datagram.len() + 17).sum::<usize>() <= junk.len());
                }
                Ok(Message::Report(_) | Message::HandedOn(_)) => prop_assert!(junk.len() <= 10),
                Err(Malformed) => {}
            }
        }

        #[test]
        fn a_message_that_is_cut_is_an_error(cut in 10..300_usize) {
            let clocks = clocks();
            let mut draft = Draft::new(clocks);
            let remote = ([192, 0, 2, 1], 9).into();
            draft.push(&detour(remote, None, (1, Some(3), Some(9), Some(4)), &[7; 300], clocks.now));
            prop_assert_eq!(parse(&draft.bytes()[..cut], clocks), Err(Malformed));
        }
    }

    #[test]
    fn reports_are_read_as_written() {
        for sent in [
            FromPredecessor::Settled,
            FromPredecessor::Claim { offer: 7, claimed: true },
            FromPredecessor::Claim { offer: u64::MAX, claimed: false },
        ] {
            assert_eq!(parse(&report(sent), clocks()), Ok(Message::Report(sent)));
        }
        for on in [false, true] {
            assert_eq!(parse(&handed_on(on), clocks()), Ok(Message::HandedOn(on)));
        }
        assert_eq!(parse(&[READS, 2], clocks()), Err(Malformed));
        assert_eq!(parse(&[SETTLED, 0], clocks()), Err(Malformed));
    }

    #[test]
    fn no_message_is_longer_than_a_receiver_has_room_for() {
        let clocks = clocks();
        let mut draft = Draft::new(clocks);
        let remote = "[2001:db8::1]:9".parse().unwrap();
        let local = "2001:db8::2".parse().ok();
        let longest =
            detour(remote, local, (3, Some(1), Some(1), Some(1)), &[7; u16::MAX as usize], clocks.now);
        let short = detour(remote, local, (3, Some(1), Some(1), Some(1)), &[], clocks.now);
        while !draft.is_full() {
            draft.push(&short);
        }
        draft.bytes.truncate(FULL - 1);
        draft.push(&longest);
        assert!(draft.len() <= MESSAGE_MAX);
    }
}
