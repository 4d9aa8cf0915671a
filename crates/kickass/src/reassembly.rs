//! The inverse of fragmentation, for receivers and tests: builds whole packets from fragments, within bounds.
//!
//! Overlapping fragments discard their packet (RFC 5722 §3; also in IPv4, where no correct sender produces them). Exact
//! duplicates are ignored. Packets that stay incomplete for [`ReassemblyConfig::timeout`] are discarded, and so is the
//! oldest when memory is full. Congestion marks are never lost (RFC 3168 §5.3).
//!
//! Invariant: `bytes` is the sum of the `cost` of all assemblies and at most [`ReassemblyConfig::bytes_max`].

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::{Duration, Instant},
};

use thiserror::Error;

use crate::packet::{Ecn, FRAGMENT_UNIT, Fragment, Malformed, Packet, REASSEMBLED_MAX};

/// Approximate cost of storing one fragment besides its bytes.
const FRAGMENT_COST: usize = 128;

/// Bounds of a [`Reassembler`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReassemblyConfig {
    /// How long after its first fragment a packet has to be complete: 30 s, as in Linux. RFC 791 §3.2 starts with 15 s,
    /// RFC 8200 §4.5 has 60 s.
    pub timeout: Duration,
    /// Packets that may be incomplete at once: 1024.
    pub packets_max: usize,
    /// Bytes of all stored fragments including the cost of storing them: 4 MiB, as in Linux.
    pub bytes_max: usize,
}

impl Default for ReassemblyConfig {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), packets_max: 1024, bytes_max: 4 << 20 }
    }
}

/// Why a fragment was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// It covers bytes of another fragment. Its packet is lost, with all fragments yet to come.
    #[error("overlaps another fragment")]
    Overlap,
    /// It lies beyond the end that another fragment gave, or gives another end. Its packet is lost.
    #[error("contradicts another fragment about the end")]
    End,
    /// It is not the last one and its length is not a multiple of 8, or it is empty.
    #[error("length is not a positive multiple of 8")]
    Length,
    /// The whole would exceed the longest IP packet, or its headers, now complete, are wrong. It is lost.
    #[error("the whole is malformed: {0}")]
    Whole(Malformed),
    /// One fragment is marked and another says that its endpoints do not support ECN; the packet is lost, as RFC 3168
    /// §5.3 requires.
    #[error("congestion marks contradict each other")]
    Ecn,
    /// Its packet was discarded already.
    #[error("belongs to a discarded packet")]
    Lost,
    /// This fragment alone exceeds the memory limit.
    #[error("larger than the reassembler")]
    NoRoom,
}

/// What the fragments of one packet have in common (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    identification: u32,
    /// IPv4 only.
    protocol: Option<u8>,
}

impl Key {
    fn of(packet: &Packet, fragment: Fragment) -> Self {
        Self {
            source: packet.source(),
            destination: packet.destination(),
            identification: fragment.identification,
            protocol: (!packet.is_ipv6()).then(|| packet.protocol()),
        }
    }
}

/// The fragments of one packet.
#[derive(Debug)]
struct Assembly {
    /// Sequence number over all assemblies, to find it in order of age.
    number: u64,
    expires: Instant,
    /// By offset; empty once the packet is lost.
    parts: BTreeMap<usize, Packet>,
    /// Bytes of payload in `parts`.
    have: usize,
    /// Bytes of payload of the whole, known once the last fragment arrived.
    end: Option<usize>,
    lost: bool,
}

impl Assembly {
    fn cost(&self) -> usize {
        FRAGMENT_COST + self.parts.values().map(cost).sum::<usize>()
    }

    /// Stores a fragment; returns whether the packet is complete.
    fn insert(&mut self, fragment: Fragment, packet: Packet) -> Result<bool, Refused> {
        if self.lost {
            return Err(Refused::Lost);
        }
        let len = packet.payload().len();
        let end = fragment.offset + len;
        // An empty fragment would have the offset of another.
        if len == 0 || fragment.more && !len.is_multiple_of(FRAGMENT_UNIT) {
            return Err(Refused::Length);
        }
        if let Some(same) = self.parts.get(&fragment.offset)
            && same.payload() == packet.payload()
            && same.fragment().is_some_and(|same| same.more == fragment.more)
        {
            return Ok(false);
        }
        if end > REASSEMBLED_MAX {
            return Err(Refused::Whole(Malformed::TooLong));
        }
        let below = self.parts.range(..end).next_back();
        if below.is_some_and(|(&offset, part)| offset + part.payload().len() > fragment.offset) {
            return Err(Refused::Overlap);
        }
        let highest = self.parts.last_key_value().map_or(0, |(&offset, part)| offset + part.payload().len());
        match self.end {
            Some(known) if end > known || !fragment.more => return Err(Refused::End),
            None if !fragment.more && end < highest => return Err(Refused::End),
            _ => {}
        }
        if !fragment.more {
            self.end = Some(end);
        }
        self.have += len;
        self.parts.insert(fragment.offset, packet);
        Ok(self.end == Some(self.have))
    }

    /// The whole packet; requires all parts.
    fn join(self) -> Result<Packet, Refused> {
        let congestion = |ecn| self.parts.values().any(|part| part.ecn() == ecn);
        let met = congestion(Ecn::Ce);
        if met && congestion(Ecn::NotEct) {
            return Err(Refused::Ecn);
        }
        let mut parts = self.parts.into_values();
        let first = parts.next().ok_or(Refused::Lost)?;
        let mut whole = first.join(parts, self.have).map_err(Refused::Whole)?;
        if met {
            whole.mark_congestion();
        }
        Ok(whole)
    }
}

fn cost(part: &Packet) -> usize {
    FRAGMENT_COST + part.total_len()
}

/// Reassembles packets.
///
/// ```
/// use std::time::Instant;
/// use kickass::{packet::Packet, reassembly::{Reassembler, ReassemblyConfig}};
///
/// # fn datagram(payload: usize) -> Vec<u8> { // A UDP datagram over IPv4 without Don't Fragment.
/// #     let mut bytes = vec![0; 20 + payload];
/// #     let len = (bytes.len() as u16).to_be_bytes();
/// #     bytes[..20].copy_from_slice(&[0x45, 0, len[0], len[1], 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
/// #     let sum: u32 = bytes[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
/// #     bytes[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
/// #     bytes
/// # }
/// let whole = Packet::parse(datagram(1480))?;
/// let mut leading = whole.clone();
/// let rest = leading.split(888, 0)?;
///
/// let now = Instant::now();
/// let mut reassembler = Reassembler::new(ReassemblyConfig::default());
/// // In any order; the last fragment to arrive returns the packet.
/// assert_eq!(reassembler.handle(now, rest)?, None);
/// assert_eq!(reassembler.packets(), 1);
/// assert_eq!(reassembler.handle(now, leading)?.unwrap().payload(), whole.payload());
/// // An incomplete packet would be dropped at `poll_timeout`.
/// assert_eq!(reassembler.poll_timeout(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reassembler {
    config: ReassemblyConfig,
    assemblies: HashMap<Key, Assembly>,
    /// Keys by age, which is also the order in which they expire.
    ages: BTreeMap<u64, Key>,
    next_number: u64,
    bytes: usize,
}

impl Reassembler {
    /// An empty reassembler.
    pub fn new(config: ReassemblyConfig) -> Self {
        Self { config, assemblies: HashMap::new(), ages: BTreeMap::new(), next_number: 0, bytes: 0 }
    }

    /// Adds a packet. A whole one is returned at once, without a Fragment header if it had one (RFC 6946 §4). A
    /// fragment returns `None` as long as others are missing.
    ///
    /// The returned header is that of the leading fragment.
    ///
    /// # Errors
    /// If the fragment is refused; [`Refused`] says what that means for its packet.
    pub fn handle(&mut self, now: Instant, packet: Packet) -> Result<Option<Packet>, Refused> {
        self.handle_timeout(now);
        let Some(fragment) = packet.fragment() else {
            let len = packet.payload().len();
            return packet.join(std::iter::empty(), len).map_err(Refused::Whole).map(Some);
        };
        if cost(&packet) + FRAGMENT_COST > self.config.bytes_max || self.config.packets_max == 0 {
            return Err(Refused::NoRoom);
        }
        let key = Key::of(&packet, fragment);
        self.make_room(key, cost(&packet) + FRAGMENT_COST);
        let number = self.next_number;
        let expires = now + self.config.timeout;
        let assembly = self.assemblies.entry(key).or_insert_with(|| Assembly {
            number,
            expires,
            parts: BTreeMap::new(),
            have: 0,
            end: None,
            lost: false,
        });
        if assembly.number == number {
            self.next_number += 1;
            self.ages.insert(number, key);
            self.bytes += FRAGMENT_COST;
        }
        let packet_cost = cost(&packet);
        let parts = assembly.parts.len();
        match assembly.insert(fragment, packet) {
            Ok(complete) => {
                if assembly.parts.len() > parts {
                    self.bytes += packet_cost;
                }
                if complete { self.remove(key).map(Assembly::join).transpose() } else { Ok(None) }
            }
            Err(refused) => {
                if refused != Refused::Length {
                    self.bytes -= assembly.cost() - FRAGMENT_COST;
                    assembly.parts.clear();
                    assembly.lost = true;
                }
                Err(refused)
            }
        }
    }

    /// When the oldest incomplete packet is discarded.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let (_, key) = self.ages.first_key_value()?;
        self.assemblies.get(key).map(|oldest| oldest.expires)
    }

    /// Discards packets that have been incomplete for too long.
    pub fn handle_timeout(&mut self, now: Instant) {
        while self.poll_timeout().is_some_and(|expires| expires <= now) {
            self.remove_oldest();
        }
    }

    /// Packets that are incomplete, or discarded and remembered so that their late fragments are refused.
    pub fn packets(&self) -> usize {
        self.assemblies.len()
    }

    /// Bytes of the stored fragments including the cost of storing them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Discards the oldest packets until a fragment of `key` fits; its own packet only if that is the oldest.
    fn make_room(&mut self, key: Key, cost: usize) {
        while self.bytes + cost > self.config.bytes_max
            || (self.assemblies.len() >= self.config.packets_max && !self.assemblies.contains_key(&key))
        {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        if let Some((_, &key)) = self.ages.first_key_value() {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) -> Option<Assembly> {
        let assembly = self.assemblies.remove(&key)?;
        self.ages.remove(&assembly.number);
        self.bytes -= assembly.cost();
        Some(assembly)
    }
}
