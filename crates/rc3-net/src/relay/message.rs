//! The messages of a [`RelayLink`](super::link::RelayLink): datagrams on their way to the predecessor, and its reports.
//!
//! Both ends are processes of one host and perhaps of two versions of the program, so the hand-over names the version of
//! this format. The first byte of a message is its kind; then come, as postcard writes them, any number of [`WireDetour`],
//! or one value.
//!
//! Invariant: bytes that are no such message are an error, and never cost more than a few times their own length.

use std::{
    net::{IpAddr, SocketAddr, SocketAddrV6},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use rc3_core::{DatagramMeta, Detour, FromPredecessor};
use serde::{Deserialize, Serialize, Serializer, de::DeserializeOwned};

use super::RelayMessage;

const DATAGRAMS: u8 = 1;
/// Whether a further successor reads the port.
const HANDED_ON: u8 = 2;
/// The number of an offer and whether it is claimed; without a number, that none will be any more.
const REPORT: u8 = 3;

const ECN_MAX: u8 = 3;

/// Most bytes of an entry beside its datagram.
const ENTRY_HEADER_MAX: usize = 73;

/// From this length on a message takes no further entry: it then has about as many datagrams as one batch of a socket.
const FULL: usize = 48 << 10;

/// The longest message: one that was almost full, and the longest datagram.
pub(super) const MESSAGE_MAX: usize = FULL + ENTRY_HEADER_MAX + u16::MAX as usize;

/// No process leaves a message unread for longer without being useless as a predecessor.
const AGE_MAX: Duration = Duration::from_secs(1);

/// A [`Detour`] as it is sent.
#[derive(Serialize, Deserialize)]
struct WireDetour<'a> {
    offer: Option<u64>,
    ecn: u8,
    ip: IpAddr,
    port: u16,
    flow: u32,
    scope: u32,
    local_ip: Option<IpAddr>,
    leading_len: Option<u16>,
    /// Microseconds from its arrival to the begin of the message.
    age: Option<u32>,
    #[serde(serialize_with = "as_bytes")]
    datagram: &'a [u8],
}

/// At once, not byte by byte.
fn as_bytes<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl WireDetour<'_> {
    fn detour(&self, now: Instant) -> Detour {
        let remote = match self.ip.to_canonical() {
            IpAddr::V4(ip) => SocketAddr::from((ip, self.port)),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, self.port, self.flow, self.scope).into(),
        };
        let age = self.age.map(|age| Duration::from_micros(age.into()).min(AGE_MAX));
        let meta = DatagramMeta {
            remote,
            local_ip: self.local_ip.map(|ip| ip.to_canonical()),
            ecn: self.ecn.min(ECN_MAX),
            leading_len: self.leading_len,
            arrived: age.and_then(|age| now.checked_sub(age)),
        };
        Detour { meta, datagram: BytesMut::from(self.datagram), offer: self.offer }
    }
}

/// A message that waits to be sent.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    pub(super) bytes: Vec<u8>,
    /// When it was begun, if it takes datagrams.
    begun: Option<Instant>,
}

impl QueuedMessage {
    /// A message of datagrams.
    pub(super) fn datagrams(now: Instant) -> Self {
        Self { begun: Some(now), ..Self::whole(DATAGRAMS, &()) }
    }

    /// That the successor has handed the port on, or has it again.
    pub(super) fn handed_on(handed_on: bool) -> Self {
        Self::whole(HANDED_ON, &handed_on)
    }

    /// A report of the predecessor.
    pub(super) fn report(report: FromPredecessor) -> Self {
        let (offer, claimed) = match report {
            FromPredecessor::Claim { offer, claimed } => (Some(offer), claimed),
            FromPredecessor::Settled => (None, false),
        };
        Self::whole(REPORT, &(offer, claimed))
    }

    fn whole(kind: u8, value: &impl Serialize) -> Self {
        let mut outgoing = Self { bytes: vec![kind], begun: None };
        outgoing.extend(value);
        outgoing
    }

    fn extend(&mut self, value: &impl Serialize) {
        self.bytes = postcard::to_extend(value, std::mem::take(&mut self.bytes)).expect("a vector has room");
    }

    /// Whether the next datagram belongs into it.
    pub(super) fn has_room(&self) -> bool {
        self.begun.is_some() && self.bytes.len() < FULL
    }

    /// Adds a datagram.
    pub(super) fn push(&mut self, Detour { meta, datagram, offer }: &Detour) {
        let (flow, scope) = match meta.remote {
            SocketAddr::V4(_) => (0, 0),
            SocketAddr::V6(remote) => (remote.flowinfo(), remote.scope_id()),
        };
        let arrived = self.begun.zip(meta.arrived);
        let age = arrived.map(|(begun, arrived)| begun.saturating_duration_since(arrived).as_micros());
        self.extend(&WireDetour {
            offer: *offer,
            ecn: meta.ecn,
            ip: meta.remote.ip(),
            port: meta.remote.port(),
            flow,
            scope,
            local_ip: meta.local_ip,
            leading_len: meta.leading_len,
            age: age.and_then(|age| age.try_into().ok()),
            datagram,
        });
    }
}

/// Reads a message that has arrived `now`. Its datagrams count as younger than they are, by the time that it was under
/// way.
///
/// # Errors
/// When it is none.
pub(super) fn parse(bytes: &[u8], now: Instant) -> postcard::Result<RelayMessage> {
    let (&kind, mut rest) = bytes.split_first().ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
    match kind {
        DATAGRAMS => {
            let mut detours = Vec::new();
            while !rest.is_empty() {
                let (entry, left) = postcard::take_from_bytes::<WireDetour<'_>>(rest)?;
                detours.push(entry.detour(now));
                rest = left;
            }
            Ok(RelayMessage::Datagrams(detours))
        }
        HANDED_ON => Ok(RelayMessage::HandedOn(whole(rest)?)),
        REPORT => Ok(RelayMessage::Report(match whole(rest)? {
            (Some(offer), claimed) => FromPredecessor::Claim { offer, claimed },
            (None, _) => FromPredecessor::Settled,
        })),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}

/// The value, if nothing is left behind it.
fn whole<T: DeserializeOwned>(bytes: &[u8]) -> postcard::Result<T> {
    match postcard::take_from_bytes(bytes)? {
        (value, []) => Ok(value),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes of the shortest entry beside its datagram.
    const ENTRY_HEADER_MIN: usize = 14;

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
        let local_ip = local_ip.map(|ip| ip.to_canonical());
        let meta = DatagramMeta { remote, local_ip, ecn: ecn & 3, leading_len, arrived };
        Detour { meta, datagram: datagram.into(), offer }
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
            let mut message = QueuedMessage::datagrams(now);
            detours.iter().for_each(|detour| message.push(detour));
            let read = parse(&message.bytes, now);
            prop_assert_eq!(read, Ok(RelayMessage::Datagrams(detours)));
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
                Ok(RelayMessage::Datagrams(detours)) => {
                    prop_assert!(detours.iter().map(|detour| detour.datagram.len() + ENTRY_HEADER_MIN).sum::<usize>() <= junk.len());
                }
                Ok(RelayMessage::Report(_) | RelayMessage::HandedOn(_)) => prop_assert!(junk.len() <= 13),
                Err(_) => {}
            }
        }

        #[test]
        fn a_message_that_is_cut_is_an_error(cut in 2..300_usize) {
            let now = now();
            let mut message = QueuedMessage::datagrams(now);
            let remote = ([192, 0, 2, 1], 9).into();
            message.push(&detour(remote, None, (1, Some(3), Some(9), Some(4)), &[7; 300], now));
            prop_assert!(parse(&message.bytes[..cut], now).is_err());
        }
    }

    #[test]
    fn reports_are_read_as_written() {
        for sent in [
            FromPredecessor::Settled,
            FromPredecessor::Claim { offer: 7, claimed: true },
            FromPredecessor::Claim { offer: u64::MAX, claimed: false },
        ] {
            assert_eq!(parse(&QueuedMessage::report(sent).bytes, now()), Ok(RelayMessage::Report(sent)));
        }
        for on in [false, true] {
            assert_eq!(parse(&QueuedMessage::handed_on(on).bytes, now()), Ok(RelayMessage::HandedOn(on)));
        }
        assert!(parse(&[HANDED_ON, 2], now()).is_err());
        assert!(parse(&[REPORT, 0, 0, 0], now()).is_err());
    }

    #[test]
    fn no_message_is_longer_than_a_receiver_has_room_for() {
        let now = now();
        let mut message = QueuedMessage::datagrams(now);
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
