//! The relay of datagrams between the two ends of a room, without sockets or clocks.
//!
//! An end shows its address by a first packet of QUIC whose connection id is its token; such packets go no further. Then
//! each datagram from an end is one to the other, as long as the rate allows. Nothing goes to an address that is not that
//! of an end, and no end can name an address with another IP than that of its connection to the rendezvous, which is
//! validated: so nobody makes the relay send to somebody else.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use rc3_core::units::Rate;

use super::message::{TOKEN_BYTES, Token};

/// Most pairs at a time.
pub(super) const PAIRS_MAX: usize = 32;
/// Time for the last datagrams of a pair that is over.
const LINGER: Duration = Duration::from_secs(3);
/// What a pair may send at once after a pause.
const BURST: Duration = Duration::from_millis(250);

/// All pairs, by their keys.
pub(super) struct Relay {
    rate: Rate,
    pairs: HashMap<u64, Pair>,
    /// Which end of which pair.
    tokens: HashMap<Token, (u64, usize)>,
    addresses: HashMap<SocketAddr, (u64, usize)>,
}

struct Pair {
    ends: [End; 2],
    /// Bytes that may be sent now, and when that was so.
    allowed: (f64, Instant),
    over: Option<Instant>,
}

struct End {
    ip: IpAddr,
    token: Token,
    address: Option<SocketAddr>,
}

impl Relay {
    /// For pairs that may each send at this rate.
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, pairs: HashMap::new(), tokens: HashMap::new(), addresses: HashMap::new() }
    }

    /// Admits a pair by a new key; whether there was room.
    pub(super) fn open(&mut self, now: Instant, key: u64, ips: [IpAddr; 2], tokens: [Token; 2]) -> bool {
        if self.pairs.len() >= PAIRS_MAX {
            return false;
        }
        for (side, token) in tokens.into_iter().enumerate() {
            self.tokens.insert(token, (key, side));
        }
        let end = |side: usize| End { ip: ips[side], token: tokens[side], address: None };
        let pair = Pair { ends: [end(0), end(1)], allowed: (self.burst(), now), over: None };
        self.pairs.insert(key, pair);
        true
    }

    /// A pair is over, if there is one: it is forgotten soon.
    pub(super) fn close(&mut self, now: Instant, key: u64) {
        if let Some(pair) = self.pairs.get_mut(&key) {
            pair.over = Some(now);
        }
    }

    /// Forgets pairs that are over.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_over =
            |pair: &mut Pair| pair.over.is_some_and(|at| now.saturating_duration_since(at) >= LINGER);
        for end in self.pairs.extract_if(|_, pair| is_over(pair)).flat_map(|(_, pair)| pair.ends) {
            self.tokens.remove(&end.token);
            end.address.map(|address| self.addresses.remove(&address));
        }
    }

    /// The connection of an end has moved to this validated address.
    pub(super) fn move_to(&mut self, key: u64, side: usize, ip: IpAddr) {
        if let Some(pair) = self.pairs.get_mut(&key) {
            pair.ends[side].ip = ip;
        }
    }

    /// The key of a datagram's pair and where that goes, if it goes anywhere.
    pub(super) fn forward(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Option<(u64, SocketAddr)> {
        if let Some(&(key, side)) = token(datagram).and_then(|token| self.tokens.get(&token)) {
            self.register(key, side, from);
            return None;
        }
        let &(key, side) = self.addresses.get(&from)?;
        let burst = self.burst();
        let pair = self.pairs.get_mut(&key)?;
        let to = pair.ends[1 - side].address?;
        let (bytes, then) = pair.allowed;
        let more = now.saturating_duration_since(then).as_secs_f64() * self.rate.bytes_per_second();
        let bytes = (bytes + more).min(burst);
        let left = bytes - datagram.len() as f64;
        pair.allowed = (if left < 0.0 { bytes } else { left }, now);
        (left >= 0.0).then_some((key, to))
    }

    /// An end has shown where it is. What belongs to another end stays.
    fn register(&mut self, key: u64, side: usize, from: SocketAddr) {
        let Some(pair) = self.pairs.get_mut(&key) else { return };
        let end = &mut pair.ends[side];
        if end.ip == from.ip().to_canonical() && !self.addresses.contains_key(&from) {
            end.address.replace(from).map(|old| self.addresses.remove(&old));
            self.addresses.insert(from, (key, side));
        }
    }

    fn burst(&self) -> f64 {
        self.rate.bytes_per_second() * BURST.as_secs_f64()
    }
}

/// The destination connection id of a long header, if it has the length of a token (RFC 8999 §5.1).
fn token(datagram: &[u8]) -> Option<Token> {
    let (&[first, _, _, _, _, length], rest) = datagram.split_first_chunk()?;
    (first & 0x80 != 0 && usize::from(length) == TOKEN_BYTES).then(|| rest.first_chunk().copied())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: [Token; 2] = [[1; TOKEN_BYTES], [2; TOKEN_BYTES]];

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn ips() -> [IpAddr; 2] {
        ["192.0.2.1", "198.51.100.1"].map(|ip| ip.parse().unwrap())
    }

    fn relay(now: Instant) -> Relay {
        let mut relay = Relay::new(Rate::from_bits_per_second(8000).unwrap());
        assert!(relay.open(now, 7, ips(), TOKENS));
        relay
    }

    /// The beginning of a first packet.
    fn first(token: Token) -> Vec<u8> {
        [&[0xc0, 0, 0, 0, 1, 16][..], &token, &[0; 20]].concat()
    }

    #[test]
    fn datagrams_go_only_between_the_two_ends_that_have_shown_themselves() {
        let now = Instant::now();
        let mut relay = relay(now);
        let (a, b) = (at("192.0.2.1:5"), at("198.51.100.1:6"));
        assert_eq!(relay.forward(now, a, &[0x40; 30]), None);
        assert_eq!(relay.forward(now, a, &first(TOKENS[0])), None);
        assert_eq!(relay.forward(now, a, &[0x40; 30]), None, "the other end is not there");
        assert_eq!(relay.forward(now, b, &first(TOKENS[1])), None);
        assert_eq!(relay.forward(now, a, &[0x40; 30]), Some((7, b)));
        assert_eq!(relay.forward(now, b, &first([3; 16])), Some((7, a)), "the first packet of a connection");
        assert_eq!(relay.forward(now, at("192.0.2.1:7"), &[0x40; 30]), None, "a stranger");
        relay.close(now, 7);
        relay.expire(now);
        assert_eq!(relay.forward(now, a, &[0x40; 30]), Some((7, b)), "the last ones");
        relay.expire(now + LINGER);
        assert_eq!(relay.forward(now, a, &[0x40; 30]), None);
        assert!(relay.addresses.is_empty() && relay.tokens.is_empty());
    }

    #[test]
    fn nobody_names_the_address_of_somebody_else() {
        let now = Instant::now();
        let mut relay = relay(now);
        let (a, b, victim) = (at("192.0.2.1:5"), at("198.51.100.1:6"), at("203.0.113.9:53"));
        relay.forward(now, a, &first(TOKENS[0]));
        relay.forward(now, victim, &first(TOKENS[1]));
        assert_eq!(relay.forward(now, a, &[0x40; 30]), None);
        // The address of one end is not that of another, in the same room or another.
        relay.forward(now, b, &first(TOKENS[1]));
        assert!(relay.open(now, 8, ips(), [[3; 16], [4; 16]]));
        relay.forward(now, a, &first([3; 16]));
        assert_eq!(relay.forward(now, b, &[0x40; 30]), Some((7, a)));
        // An end may move to where its connection has moved.
        let moved = at("203.0.113.9:5");
        relay.forward(now, moved, &first(TOKENS[0]));
        assert_eq!(relay.forward(now, b, &[0x40; 30]), Some((7, a)));
        relay.move_to(7, 0, moved.ip());
        relay.forward(now, moved, &first(TOKENS[0]));
        assert_eq!(relay.forward(now, b, &[0x40; 30]), Some((7, moved)));
        assert_eq!(relay.forward(now, a, &[0x40; 30]), None);
    }

    #[test]
    fn the_rate_and_the_number_of_pairs_are_bounded() {
        let now = Instant::now();
        let mut relay = relay(now);
        let (a, b) = (at("192.0.2.1:5"), at("198.51.100.1:6"));
        relay.forward(now, a, &first(TOKENS[0]));
        relay.forward(now, b, &first(TOKENS[1]));
        // A thousand bytes a second.
        let passed = |relay: &mut Relay, now| {
            (0..100).filter(|_| relay.forward(now, a, &[0x40; 50]).is_some()).count()
        };
        assert_eq!(passed(&mut relay, now), 5);
        assert_eq!(passed(&mut relay, now + Duration::from_millis(100)), 2);
        assert_eq!(passed(&mut relay, now + Duration::from_secs(100)), 5);
        let fits = |nth: u8| {
            relay.open(
                now,
                nth.into(),
                ips(),
                [[nth, 0], [nth, 1]].map(|it| it.repeat(8).try_into().unwrap()),
            )
        };
        assert_eq!((8..200).map(fits).filter(|fits| *fits).count(), PAIRS_MAX - 1);
    }

    proptest::proptest! {
        #[test]
        fn any_datagram_has_a_token_or_not(bytes: Vec<u8>) {
            let _ = token(&bytes);
        }
    }
}
