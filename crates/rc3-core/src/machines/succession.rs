//! What an endpoint keeps for the endpoints that have its port before or after it: a server that is restarted hands its
//! port to a new process, its successor, and serves the connections that it has until they end.
//!
//! The successor alone reads the port. What none of its connections owns goes to its predecessor: QUIC packets with a
//! short header, RLP datagrams, and, while handshakes of the predecessor are in progress, packets with a long header. A
//! first packet that may belong to such a handshake is *offered*: the successor withholds its own answer until the
//! predecessor claims the packet or does not.
//!
//! Invariant: bounded, whatever arrives. What finds no room is dropped, as if the network had lost it.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use bytes::BytesMut;

use crate::{
    datagram_meta::DatagramMeta, seams::primary::quinn::Incoming, transmit::Transmit,
    wire::header::has_long_header,
};

/// Most datagrams that wait for the driver, which takes them once a round.
const DETOURS_MAX: usize = 4096;

/// Most offers without an answer. The clients of further ones send their first packet again.
const OFFERS_MAX: usize = 1024;

/// How long an offer waits for its answer. The predecessor usually answers within a millisecond; one that hangs must not
/// stop new connections. If it claims the packet later, the client has two answers to choose from.
const OFFER_FOR: Duration = Duration::from_millis(250);

/// How long after the hand-over a predecessor looks at its handshakes for the first time: copies of their first packets
/// may be under way for as long.
const SETTLE_AFTER: Duration = Duration::from_secs(3);

/// How often it looks from then on.
const SETTLE_EVERY: Duration = Duration::from_secs(1);

/// A datagram on its way to the endpoint that had the port before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detour {
    /// Where it came from, and its marks.
    pub meta: DatagramMeta,
    /// The datagram.
    pub datagram: BytesMut,
    /// Set if it may begin a connection: the predecessor must say by [`FromPredecessor::Claim`] whether the handshake is
    /// one of its own.
    pub offer: Option<u64>,
}

/// What a predecessor reports to its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromPredecessor {
    /// The answer to a [`Detour::offer`].
    Claim {
        /// Its number.
        offer: u64,
        /// Whether the packet belongs to a handshake of the predecessor.
        claimed: bool,
    },
    /// The predecessor has no handshake in progress, and will have none.
    Settled,
}

/// What an endpoint does about a first packet that its predecessor does not claim.
#[derive(Debug)]
pub(crate) enum Withheld {
    /// Accepts the handshake.
    Incoming(Incoming),
    /// Sends this.
    Response(Transmit, Vec<u8>),
    /// Answers the offer of its own successor.
    Relayed(u64),
}

/// The endpoint that had the port before.
#[derive(Debug)]
pub(crate) struct Predecessor {
    /// It may have handshakes in progress.
    pub(crate) handshaking: bool,
    pub(crate) detours: VecDeque<Detour>,
    /// By the numbers of offers, thus in the order of their deadlines.
    pub(crate) withheld: BTreeMap<u64, (Instant, Withheld)>,
    last_offer: u64,
}

impl Predecessor {
    pub(crate) fn new() -> Self {
        Self { handshaking: true, detours: VecDeque::new(), withheld: BTreeMap::new(), last_offer: 0 }
    }

    /// Whether a QUIC datagram may belong to one of its connections.
    pub(crate) fn may_own(&self, datagram: &[u8]) -> bool {
        self.handshaking || !has_long_header(datagram)
    }

    /// Adds a datagram that needs no answer.
    pub(crate) fn push(&mut self, meta: DatagramMeta, datagram: BytesMut) {
        if self.detours.len() < DETOURS_MAX {
            self.detours.push_back(Detour { meta, datagram, offer: None });
        }
    }

    /// Adds a datagram that the predecessor must claim or not. Without room for it returns what should be withheld.
    pub(crate) fn offer(
        &mut self,
        now: Instant,
        (meta, datagram): (DatagramMeta, BytesMut),
        withheld: Withheld,
    ) -> Result<(), Withheld> {
        if self.withheld.len() >= OFFERS_MAX || self.detours.len() >= DETOURS_MAX {
            return Err(withheld);
        }
        self.last_offer += 1;
        self.withheld.insert(self.last_offer, (now + OFFER_FOR, withheld));
        self.detours.push_back(Detour { meta, datagram, offer: Some(self.last_offer) });
        Ok(())
    }

    /// An offer was answered; `None` if it was answered before or never made.
    pub(crate) fn take(&mut self, offer: u64) -> Option<Withheld> {
        self.withheld.remove(&offer).map(|(_, withheld)| withheld)
    }

    /// The next offer whose time is over.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<Withheld> {
        let oldest = self.withheld.first_entry().filter(|oldest| oldest.get().0 <= now)?;
        Some(oldest.remove().1)
    }

    /// No handshake is in progress there: takes all that is withheld.
    pub(crate) fn end_handshakes(&mut self) -> Vec<Withheld> {
        self.handshaking = false;
        std::mem::take(&mut self.withheld).into_values().map(|(_, withheld)| withheld).collect()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.withheld.first_key_value().map(|(_, &(until, _))| until)
    }
}

/// The time of an endpoint in which a successor has the port.
#[derive(Debug)]
pub(crate) struct Retirement {
    /// When to look next whether handshakes are in progress; `None` once there are none.
    pub(crate) check_at: Option<Instant>,
    pub(crate) reports: VecDeque<FromPredecessor>,
}

impl Retirement {
    pub(crate) fn new(now: Instant) -> Self {
        Self { check_at: Some(now + SETTLE_AFTER), reports: VecDeque::new() }
    }

    /// Looks again, if it is time: `handshaking`, whether handshakes are in progress.
    pub(crate) fn check(&mut self, now: Instant, handshaking: bool) {
        if self.check_at.is_none_or(|at| at > now) {
            return;
        }
        self.check_at = handshaking.then(|| now + SETTLE_EVERY);
        if !handshaking {
            self.report(FromPredecessor::Settled);
        }
    }

    /// A claim without room is one without an answer.
    pub(crate) fn report(&mut self, report: FromPredecessor) {
        if self.reports.len() < DETOURS_MAX || report == FromPredecessor::Settled {
            self.reports.push_back(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> DatagramMeta {
        let remote = ([192, 0, 2, 1], 9).into();
        DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None }
    }

    #[test]
    fn a_flood_is_bounded() {
        let now = Instant::now();
        let mut predecessor = Predecessor::new();
        let offers = 0..3 * OFFERS_MAX as u64;
        let made = offers.filter(|&nth| {
            let offered = (meta(), BytesMut::zeroed(1200));
            predecessor.offer(now, offered, Withheld::Relayed(nth)).is_ok()
        });
        assert_eq!(made.count(), OFFERS_MAX);
        for _ in 0..2 * DETOURS_MAX {
            predecessor.push(meta(), BytesMut::zeroed(40));
        }
        assert_eq!(predecessor.detours.len(), DETOURS_MAX);
        let mut retirement = Retirement::new(now);
        for offer in 0..2 * DETOURS_MAX as u64 {
            retirement.report(FromPredecessor::Claim { offer, claimed: false });
        }
        assert_eq!(retirement.reports.len(), DETOURS_MAX);
    }

    #[test]
    fn an_offer_ends_once_by_its_answer_or_by_time() {
        let now = Instant::now();
        let mut predecessor = Predecessor::new();
        for nth in [7, 8] {
            let offered = (meta(), BytesMut::zeroed(1200));
            predecessor.offer(now, offered, Withheld::Relayed(nth)).unwrap();
        }
        let offers: Vec<_> = std::iter::from_fn(|| predecessor.detours.pop_front())
            .filter_map(|detour| detour.offer)
            .collect();
        assert!(matches!(predecessor.take(offers[1]), Some(Withheld::Relayed(8))));
        assert!(predecessor.take(offers[1]).is_none(), "answered twice");
        assert!(predecessor.take(99).is_none(), "never made");
        assert!(predecessor.pop_expired(now).is_none());
        assert!(matches!(predecessor.pop_expired(now + OFFER_FOR), Some(Withheld::Relayed(7))));
        assert!(predecessor.pop_expired(now + OFFER_FOR).is_none());
        assert_eq!(predecessor.deadline(), None);
    }
}
