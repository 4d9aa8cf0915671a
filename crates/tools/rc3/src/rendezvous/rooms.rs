//! The rooms of a rendezvous, without sockets or clocks: a host opens one, one guest joins it, and what they say is passed
//! on. A room is forgotten when either leaves, and after a while.
//!
//! Invariants: a room has one guest ever, so a code allows one try. Rooms, guests that failed and what is kept for an end
//! are bounded.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::Bytes;
use rc3_core::site_of;

use super::{
    message::{FromParty, FromRendezvous, Pass, TOKEN_BYTES, Why},
    relay::Relay,
};

/// Most rooms, in all and of the hosts of one site.
pub(super) const ROOMS_MAX: usize = 512;
pub(super) const ROOMS_PER_SITE_MAX: usize = 8;
/// Time after which a room that nobody uses is forgotten.
pub(super) const UNUSED_MAX: Duration = Duration::from_secs(600);
/// Most tries of one site that end without trust, in [`UNUSED_MAX`].
pub(super) const GUESSES_MAX: u32 = 5;
/// Most sites whose failed tries are remembered.
const GUESSING_MAX: usize = 1024;
/// Most messages that each end may have passed on.
pub(super) const MESSAGES_MAX: usize = 4;
/// The first numbers: short ones.
const NUMBERS: u32 = 99;

/// A connection to the rendezvous.
pub(super) type PartyId = u64;

/// Bytes of randomness for one message.
pub(super) const RANDOM_BYTES: usize = 2 * TOKEN_BYTES;

/// All of them.
#[derive(Default)]
pub(super) struct Rooms {
    rooms: HashMap<u32, Room>,
    /// The room of each end, and whether it is the guest.
    parties: HashMap<PartyId, (u32, bool)>,
    guesses: Guesses,
    /// The relay, and its port.
    relay: Option<(Relay, u16)>,
    /// Messages, and to whom.
    outgoing: VecDeque<(PartyId, FromRendezvous)>,
}

struct Room {
    host: (PartyId, SocketAddr),
    guest: Option<(PartyId, SocketAddr)>,
    /// What the host has said before there was a guest.
    kept: Vec<Bytes>,
    /// Messages of host and guest.
    said: [usize; 2],
    is_trusted: bool,
    used: Instant,
}

impl Rooms {
    /// None so far; with this relay at that port, if its owner allows one.
    pub(super) fn new(relay: Option<(Relay, u16)>) -> Self {
        Self { relay, ..Self::default() }
    }

    /// The next message, and to whom. A party that learns that its room has ended says nothing more.
    pub(super) fn poll(&mut self) -> Option<(PartyId, FromRendezvous)> {
        self.outgoing.pop_front()
    }

    /// A message of a party at this validated address.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        (id, at): (PartyId, SocketAddr),
        message: FromParty,
        random: [u8; RANDOM_BYTES],
    ) {
        let heard = match (message, self.parties.get(&id).copied()) {
            (FromParty::Open, None) => self.open(now, (id, at), random),
            (FromParty::Join(number), None) => self.join(now, (id, at), number, random),
            (FromParty::Say(text), Some((number, is_guest))) => self.say(now, number, is_guest, text),
            (FromParty::Trusted, Some((number, false))) => self.trust(number),
            _ => Err(Why::Nonsense),
        };
        if let Err(why) = heard {
            self.left(now, id);
            self.send(id, FromRendezvous::Ended(why));
        }
    }

    /// A party is gone.
    pub(super) fn left(&mut self, now: Instant, id: PartyId) {
        if let Some((number, _)) = self.parties.get(&id).copied() {
            self.end(now, number, Some(id), Why::Left);
        }
    }

    /// A party has moved to another validated address.
    pub(super) fn moved(&mut self, id: PartyId, to: SocketAddr) {
        let Some(&(number, is_guest)) = self.parties.get(&id) else { return };
        if let (Some(room), Some((relay, _))) = (self.rooms.get(&number), &mut self.relay) {
            relay.move_to(room.host.0, usize::from(is_guest), to.ip().to_canonical());
        }
    }

    /// Where a datagram goes that came to the relay.
    pub(super) fn forward(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Option<SocketAddr> {
        let (host, to) = self.relay.as_mut()?.0.forward(now, from, datagram)?;
        // The last datagrams come after the room.
        if let Some(room) = self.parties.get(&host).and_then(|(number, _)| self.rooms.get_mut(number)) {
            room.used = now;
        }
        Some(to)
    }

    /// Forgets what nobody uses.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_unused = |used: Instant| now.saturating_duration_since(used) >= UNUSED_MAX;
        let unused: Vec<u32> =
            self.rooms.iter().filter(|(_, room)| is_unused(room.used)).map(|(number, _)| *number).collect();
        unused.into_iter().for_each(|number| self.end(now, number, None, Why::Expired));
        self.relay.iter_mut().for_each(|(relay, _)| relay.expire(now));
        self.guesses.0.retain(|_, (_, since)| !is_unused(*since));
    }

    fn open(
        &mut self,
        now: Instant,
        host: (PartyId, SocketAddr),
        random: [u8; RANDOM_BYTES],
    ) -> Result<(), Why> {
        let site = site_of(host.1.ip());
        let of_site = self.rooms.values().filter(|room| site_of(room.host.1.ip()) == site).count();
        if self.rooms.len() >= ROOMS_MAX || of_site >= ROOMS_PER_SITE_MAX {
            return Err(Why::Full);
        }
        let [first, second, ..] = random;
        // At least half of the numbers are free.
        let numbers = NUMBERS.max(2 * u32::try_from(self.rooms.len()).unwrap_or(u32::MAX));
        let start = u32::from(u16::from_be_bytes([first, second]));
        let mut free = (0..numbers).map(|nth| 1 + (start + nth) % numbers);
        let number = free.find(|number| !self.rooms.contains_key(number)).ok_or(Why::Full)?;
        let (kept, said) = (Vec::new(), [0; 2]);
        self.rooms.insert(number, Room { host, guest: None, kept, said, is_trusted: false, used: now });
        self.parties.insert(host.0, (number, false));
        self.send(host.0, FromRendezvous::Opened { number });
        Ok(())
    }

    fn join(
        &mut self,
        now: Instant,
        guest: (PartyId, SocketAddr),
        number: u32,
        random: [u8; RANDOM_BYTES],
    ) -> Result<(), Why> {
        let site = site_of(guest.1.ip());
        if self.guesses.is_spent(site) {
            return Err(Why::Guesses);
        }
        let Some(room) = self.rooms.get_mut(&number).filter(|room| room.guest.is_none()) else {
            self.guesses.failed(now, site);
            return Err(Why::NoSuchRoom);
        };
        (room.guest, room.used) = (Some(guest), now);
        self.parties.insert(guest.0, (number, true));
        let (host, kept) = (room.host, std::mem::take(&mut room.kept));
        let (tokens, _) = random.as_chunks::<TOKEN_BYTES>();
        let (tokens, ips) = ([tokens[0], tokens[1]], [host.1, guest.1].map(|at| at.ip().to_canonical()));
        let relay = self.relay.as_mut();
        let port = relay.and_then(|(relay, port)| relay.open(now, host.0, ips, tokens).then_some(*port));
        let pass = |side: usize| port.map(|port| Pass { port, token: tokens[side] });
        self.send(host.0, FromRendezvous::Joined { seen: host.1, guest: Some(guest.1), relay: pass(0) });
        self.send(guest.0, FromRendezvous::Joined { seen: guest.1, guest: None, relay: pass(1) });
        kept.into_iter().for_each(|text| self.send(guest.0, FromRendezvous::Said(text)));
        Ok(())
    }

    fn say(&mut self, now: Instant, number: u32, is_guest: bool, text: Bytes) -> Result<(), Why> {
        let room = self.rooms.get_mut(&number).ok_or(Why::Nonsense)?;
        let said = &mut room.said[usize::from(is_guest)];
        *said += 1;
        if *said > MESSAGES_MAX {
            return Err(Why::Nonsense);
        }
        room.used = now;
        let to = if is_guest { Some(room.host) } else { room.guest };
        match to {
            Some((to, _)) => self.send(to, FromRendezvous::Said(text)),
            None => room.kept.push(text),
        }
        Ok(())
    }

    fn trust(&mut self, number: u32) -> Result<(), Why> {
        let room = self.rooms.get_mut(&number).filter(|room| room.guest.is_some()).ok_or(Why::Nonsense)?;
        room.is_trusted = true;
        Ok(())
    }

    /// Forgets a room, and lets its ends know, except the one that does.
    fn end(&mut self, now: Instant, number: u32, knows: Option<PartyId>, why: Why) {
        let Some(room) = self.rooms.remove(&number) else { return };
        if let Some((relay, _)) = &mut self.relay {
            relay.close(now, room.host.0);
        }
        if let Some((_, at)) = room.guest.filter(|_| !room.is_trusted) {
            self.guesses.failed(now, site_of(at.ip()));
        }
        for (id, _) in [Some(room.host), room.guest].into_iter().flatten() {
            self.parties.remove(&id);
            if knows != Some(id) {
                self.send(id, FromRendezvous::Ended(why));
            }
        }
    }

    fn send(&mut self, to: PartyId, message: FromRendezvous) {
        self.outgoing.push_back((to, message));
    }
}

/// Tries of sites that ended without trust: how many, and since when.
#[derive(Default)]
struct Guesses(HashMap<IpAddr, (u32, Instant)>);

impl Guesses {
    fn is_spent(&self, site: IpAddr) -> bool {
        self.0.get(&site).is_some_and(|(failed, _)| *failed >= GUESSES_MAX)
    }

    fn failed(&mut self, now: Instant, site: IpAddr) {
        if self.0.len() >= GUESSING_MAX && !self.0.contains_key(&site) {
            let oldest = self.0.iter().min_by_key(|(_, (_, since))| *since).map(|(site, _)| *site);
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        self.0.entry(site).or_insert((0, now)).0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Rate;

    use super::{super::relay::PAIRS_MAX, *};

    const RANDOM: [u8; RANDOM_BYTES] = [5; RANDOM_BYTES];

    /// A rendezvous.
    struct World {
        rooms: Rooms,
        now: Instant,
    }

    /// A party of each network.
    fn at(network: u8) -> SocketAddr {
        ([192, 0, network, 1], 9).into()
    }

    impl World {
        fn new() -> Self {
            let relay = Relay::new(Rate::from_bits_per_second(1_000_000).unwrap());
            Self { rooms: Rooms::new(Some((relay, 4))), now: Instant::now() }
        }

        fn say(&mut self, id: PartyId, network: u8, message: FromParty) -> Vec<(PartyId, FromRendezvous)> {
            self.rooms.hear(self.now, (id, at(network)), message, RANDOM);
            self.outgoing()
        }

        fn outgoing(&mut self) -> Vec<(PartyId, FromRendezvous)> {
            std::iter::from_fn(|| self.rooms.poll()).collect()
        }

        fn open(&mut self, id: PartyId, network: u8) -> u32 {
            match self.say(id, network, FromParty::Open)[..] {
                [(to, FromRendezvous::Opened { number })] if to == id => number,
                ref outgoing => panic!("{outgoing:?}"),
            }
        }

        /// The first message to a guest, who leaves again if it may come in.
        fn guess(&mut self, id: PartyId, network: u8, number: u32) -> FromRendezvous {
            let outgoing = self.say(id, network, FromParty::Join(number));
            self.rooms.left(self.now, id);
            self.outgoing();
            outgoing.into_iter().find(|(to, _)| *to == id).unwrap().1
        }

        fn is_empty(&self) -> bool {
            let Rooms { rooms, parties, outgoing, .. } = &self.rooms;
            rooms.is_empty() && parties.is_empty() && outgoing.is_empty()
        }
    }

    fn say(text: &'static str) -> FromParty {
        FromParty::Say(text.into())
    }

    fn said(text: &'static str) -> FromRendezvous {
        FromRendezvous::Said(text.into())
    }

    fn ended(id: PartyId, why: Why) -> Vec<(PartyId, FromRendezvous)> {
        vec![(id, FromRendezvous::Ended(why))]
    }

    #[test]
    fn two_ends_meet_and_leave_nothing_behind() {
        let mut world = World::new();
        let number = world.open(1, 1);
        assert!((1..=NUMBERS).contains(&number));
        assert!(world.say(1, 1, say("before")).is_empty());
        let pass = |byte| Some(Pass { port: 4, token: [byte; TOKEN_BYTES] });
        let joined = |seen, guest| FromRendezvous::Joined { seen: at(seen), guest, relay: pass(5) };
        let expected = [(1, joined(1, Some(at(2)))), (2, joined(2, None)), (2, said("before"))];
        assert_eq!(world.say(2, 2, FromParty::Join(number)), expected);
        assert_eq!(world.say(2, 2, say("hello")), [(1, said("hello"))]);
        assert_eq!(world.say(1, 1, say("there")), [(2, said("there"))]);
        assert!(world.say(1, 1, FromParty::Trusted).is_empty());
        world.rooms.left(world.now, 2);
        assert_eq!(world.outgoing(), ended(1, Why::Left));
        assert!(world.is_empty() && world.rooms.guesses.0.is_empty());
    }

    #[test]
    fn a_code_allows_one_try_and_a_network_a_few() {
        let mut world = World::new();
        let other = world.open(2, 2);
        for nth in 0..u64::from(GUESSES_MAX) {
            let number = world.open(10, 1);
            assert!(matches!(world.guess(20 + nth, 3, number), FromRendezvous::Joined { .. }));
            assert_eq!(world.guess(30 + nth, 4, number), FromRendezvous::Ended(Why::NoSuchRoom));
        }
        for network in [3, 4] {
            assert_eq!(world.guess(40, network, other), FromRendezvous::Ended(Why::Guesses));
        }
        // While one is in, nobody else comes in.
        world.say(50, 5, FromParty::Join(other));
        assert_eq!(world.say(51, 6, FromParty::Join(other)), ended(51, Why::NoSuchRoom));
        // An honest one may come again after a while.
        let number = world.open(10, 1);
        world.now += UNUSED_MAX;
        world.rooms.expire(world.now);
        assert_eq!(world.outgoing().len(), 3, "two rooms, one with a guest");
        assert_eq!(world.guess(40, 3, number), FromRendezvous::Ended(Why::NoSuchRoom));
    }

    #[test]
    fn rooms_are_limited_by_network_and_in_all() {
        let mut world = World::new();
        let mut opened = 0;
        for network in 0..=255 {
            for nth in 0..=ROOMS_PER_SITE_MAX as u64 {
                let id = 1000 * u64::from(network) + nth;
                match &world.say(id, network, FromParty::Open)[..] {
                    [(_, FromRendezvous::Opened { number })] => {
                        assert!(*number <= 2 * ROOMS_MAX as u32);
                        opened += 1;
                    }
                    outgoing => assert_eq!(outgoing, ended(id, Why::Full)),
                }
            }
            assert!(opened <= (usize::from(network) + 1) * ROOMS_PER_SITE_MAX);
        }
        assert_eq!((opened, world.rooms.rooms.len()), (ROOMS_MAX, ROOMS_MAX));
    }

    /// One subscriber may have 65,536 networks.
    #[test]
    fn networks_of_one_site_of_ipv6_share_rooms_and_tries() {
        let mut world = World::new();
        let at = |subnet| SocketAddr::from(([0x2001, 0xdb8, 1, subnet, 0, 0, 0, 1], 9));
        let mut hear = |id, message| {
            world.rooms.hear(world.now, (id, at(id as u16)), message, RANDOM);
            world.outgoing().pop().unwrap().1
        };
        let full = (1..=9)
            .map(|id| hear(id, FromParty::Open))
            .filter(|said| *said == FromRendezvous::Ended(Why::Full));
        assert_eq!(full.count(), 9 - ROOMS_PER_SITE_MAX);
        for id in 100..100 + u64::from(GUESSES_MAX) {
            assert_eq!(hear(id, FromParty::Join(u32::MAX)), FromRendezvous::Ended(Why::NoSuchRoom));
        }
        assert_eq!(hear(200, FromParty::Join(u32::MAX)), FromRendezvous::Ended(Why::Guesses));
    }

    #[test]
    fn rooms_that_nobody_uses_are_forgotten_and_relayed_datagrams_are_use() {
        let mut world = World::new();
        let number = world.open(1, 1);
        let random: Vec<u8> = [[1; TOKEN_BYTES], [2; TOKEN_BYTES]].concat();
        world.rooms.hear(world.now, (2, at(2)), FromParty::Join(number), random.try_into().unwrap());
        world.outgoing();
        for (network, token) in [(1, 1), (2, 2)] {
            let first = [&[0xc0, 0, 0, 0, 1, 16][..], &[token; 16]].concat();
            assert_eq!(world.rooms.forward(world.now, at(network), &first), None);
        }
        for _ in 0..3 {
            world.now += UNUSED_MAX - Duration::from_secs(1);
            assert_eq!(world.rooms.forward(world.now, at(2), &[0x40; 30]), Some(at(1)));
            world.rooms.expire(world.now);
            assert_eq!(world.outgoing(), []);
        }
        world.now += UNUSED_MAX;
        world.rooms.expire(world.now);
        assert_eq!(world.outgoing(), [ended(1, Why::Expired), ended(2, Why::Expired)].concat());
        assert!(world.is_empty());
    }

    #[test]
    fn what_may_not_be_said_ends_the_room() {
        let mut world = World::new();
        for nonsense in [say("x"), FromParty::Trusted] {
            assert_eq!(world.say(1, 1, nonsense), ended(1, Why::Nonsense));
        }
        for nonsense in [FromParty::Open, FromParty::Join(1), FromParty::Trusted] {
            world.open(1, 1);
            assert_eq!(world.say(1, 1, nonsense), ended(1, Why::Nonsense));
        }
        let number = world.open(1, 1);
        world.say(2, 2, FromParty::Join(number));
        for _ in 0..MESSAGES_MAX {
            assert_eq!(world.say(2, 2, say("x")).len(), 1);
        }
        let outgoing = world.say(2, 2, say("x"));
        assert_eq!(outgoing, [ended(1, Why::Left), ended(2, Why::Nonsense)].concat());
        assert!(world.is_empty());
    }

    #[test]
    fn few_rooms_are_relayed_and_few_networks_remembered() {
        let mut world = World::new();
        let mut relayed = 0;
        for nth in 0..100_u8 {
            let (host, guest) = (u64::from(nth), 1000 + u64::from(nth));
            let number = world.open(host, nth);
            world.rooms.hear(world.now, (guest, at(200)), FromParty::Join(number), [nth; RANDOM_BYTES]);
            let outgoing = world.outgoing();
            relayed += usize::from(matches!(outgoing[0].1, FromRendezvous::Joined { relay: Some(_), .. }));
        }
        assert_eq!(relayed, PAIRS_MAX);
        for nth in 0..2 * GUESSING_MAX as u32 {
            let ip = IpAddr::from(nth.to_be_bytes());
            world.rooms.guesses.failed(world.now + Duration::from_nanos(nth.into()), ip);
        }
        assert_eq!(world.rooms.guesses.0.len(), GUESSING_MAX);
    }
}
