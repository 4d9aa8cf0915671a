//! Other endpoints on the port: workers beside this one, and those that have the port before or after it. Most endpoints
//! are alone; then nothing here does anything.
//!
//! What belongs to no connection here may belong to one of theirs. The driver carries it there and back.

use std::time::Instant;

use bytes::BytesMut;

use super::Endpoint;
use crate::{
    datagram_meta::DatagramMeta,
    machines::{
        receivers::RouteChange,
        strays::{ResetToken, Strays, reset_of, reset_token},
        succession::{FromPredecessor, Predecessor, Retirement},
    },
    seams::primary::quinn::RoutedDatagram,
    wire::header::has_long_header,
};

/// How a datagram reached an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DatagramOrigin {
    /// By the port.
    Port,
    /// By another endpoint on the port, which has looked for further ones.
    Worker,
    /// By the endpoint that took the port over, perhaps with the number of an offer.
    Successor(Option<u64>),
}

/// What others have to do with the port.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// What arrived here and may be for other workers.
    strays: Strays,
    /// The endpoint that had the port before.
    pub(super) predecessor: Option<Predecessor>,
    /// Set while a successor has the port.
    pub(super) retirement: Option<Retirement>,
}

impl Neighbours {
    /// Whether there is another endpoint before or after this one.
    pub(super) fn has_succession(&self) -> bool {
        self.predecessor.is_some() || self.retirement.is_some()
    }

    /// When [`Endpoint::handle_timeout`] has work here.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let offer = self.predecessor.as_ref().and_then(Predecessor::deadline);
        let check = self.retirement.as_ref().and_then(|retirement| retirement.check_at);
        offer.into_iter().chain(check).min()
    }

    /// Answers an offer of the successor, if it is still there.
    pub(super) fn claim(&mut self, offer: u64, claimed: bool) {
        if let Some(retirement) = &mut self.retirement {
            retirement.report(FromPredecessor::Claim { offer, claimed });
        }
    }
}

/// What is kept of a QUIC datagram in case that no connection here owns it.
pub(super) struct Aside {
    pub(super) meta: DatagramMeta,
    pub(super) origin: DatagramOrigin,
    pub(super) has_long_header: bool,
    /// Present if a connection of the predecessor may own it.
    pub(super) copy: Option<BytesMut>,
    /// Present if it may be a stateless reset for a connection of another worker.
    reset: Option<ResetToken>,
}

impl Endpoint {
    /// As [`Self::handle_datagrams`], for datagrams that another endpoint on the port has received: none of them is a
    /// stray again.
    pub fn handle_handed_over(
        &mut self,
        now: Instant,
        datagrams: impl IntoIterator<Item = (DatagramMeta, BytesMut)>,
    ) {
        self.handle_all(
            now,
            datagrams.into_iter().map(|(meta, datagram)| (meta, datagram, DatagramOrigin::Worker)),
        );
    }

    /// Another endpoint on the port has received what may be a stateless reset (RFC 9000 §10.3) of a connection here.
    /// Nothing about it shows which connection it concerns, except its last bytes.
    pub fn handle_reset(&mut self, now: Instant, meta: DatagramMeta, token: [u8; 16]) {
        if let Some(handle) = self.handle_quic(now, meta, reset_of(token), DatagramOrigin::Worker) {
            self.touch(now, handle);
        }
    }

    /// The next RLP datagram that no connection here can open, if the endpoint shares its port
    /// ([`for_workers`](crate::EndpointConfig::for_workers)): pass it to [`Self::handle_handed_over`] of the endpoints
    /// that may open it. If a handshake with its sender is in progress here, this endpoint has stored a copy.
    pub fn poll_stray(&mut self) -> Option<(DatagramMeta, BytesMut)> {
        self.neighbours.strays.datagrams.pop_front()
    }

    /// What may be a stateless reset for a connection of another endpoint on the port: pass it to
    /// [`Self::handle_reset`] of all others. None unless the endpoint shares its port.
    pub fn poll_reset(&mut self) -> Option<(DatagramMeta, [u8; 16])> {
        self.neighbours.strays.resets.pop_front()
    }

    /// The next change that decides which endpoint on the port may open a stray; none unless the endpoint shares its
    /// port.
    pub fn poll_route_change(&mut self) -> Option<RouteChange> {
        self.receivers.changes.as_mut()?.pop_front()
    }

    /// Whether a datagram of no connection here may be for other workers.
    fn is_shared(&self, origin: DatagramOrigin) -> bool {
        origin != DatagramOrigin::Worker && self.receivers.is_shared()
    }

    /// No connection here can open an RLP datagram: leaves it to the predecessor and to other workers, if there are any.
    pub(super) fn pass_rlp_on(&mut self, meta: DatagramMeta, datagram: BytesMut, origin: DatagramOrigin) {
        let shared = self.is_shared(origin);
        if let Some(predecessor) =
            self.neighbours.predecessor.as_mut().filter(|_| origin != DatagramOrigin::Worker)
        {
            predecessor.push(meta, datagram.clone());
        }
        if shared {
            self.neighbours.strays.push(meta, datagram);
        }
    }

    /// Keeps what [`Self::consult_neighbours`] needs of a QUIC datagram; `None` without neighbours.
    pub(super) fn set_aside(
        &self,
        meta: DatagramMeta,
        datagram: &[u8],
        origin: DatagramOrigin,
    ) -> Option<Aside> {
        let reset = self.is_shared(origin).then(|| reset_token(datagram)).flatten();
        if reset.is_none() && !self.neighbours.has_succession() {
            return None;
        }
        let predecessor = self.neighbours.predecessor.as_ref();
        let copy = predecessor.filter(|predecessor| predecessor.may_own(datagram));
        Some(Aside {
            meta,
            origin,
            has_long_header: has_long_header(datagram),
            copy: copy.map(|_| BytesMut::from(datagram)),
            reset,
        })
    }

    /// QUIC has `routed` a datagram. Informs the neighbours, and returns what this endpoint should do about it.
    pub(super) fn consult_neighbours(
        &mut self,
        now: Instant,
        aside: Aside,
        routed: Option<RoutedDatagram>,
        response: &mut Vec<u8>,
    ) -> Option<RoutedDatagram> {
        if matches!(routed, Some(RoutedDatagram::Connection(..))) {
            if let DatagramOrigin::Successor(Some(offer)) = aside.origin {
                self.neighbours.claim(offer, true);
            }
            return routed;
        }
        if let Some(token) = aside.reset {
            self.neighbours.strays.push_reset(aside.meta, token);
        }
        if !self.neighbours.has_succession() {
            return routed;
        }
        self.handle_unowned(now, aside, routed, response)
    }
}
