//! An endpoint that takes a port over, or hands it over: see [`crate::machines::succession`].

use std::time::Instant;

use bytes::BytesMut;

use super::{
    Endpoint,
    neighbours::{Aside, DatagramOrigin},
};
use crate::{
    datagram_meta::DatagramMeta,
    machines::succession::{Detour, FromPredecessor, Predecessor, Retirement, Withheld},
    seams::primary::quinn::{Incoming, RoutedDatagram},
};

impl Endpoint {
    /// Another endpoint had the port before this one, and may still have connections: from now on pass what
    /// [`Self::poll_detour`] returns to its [`Self::handle_detours`], and what its [`Self::poll_for_successor`] returns
    /// to [`Self::handle_from_predecessor`] here.
    ///
    /// Packets of unknown connections are not answered with a stateless reset meanwhile: the predecessor decides.
    pub fn follow_predecessor(&mut self) {
        self.neighbours.predecessor = Some(Predecessor::new());
    }

    /// Whether another endpoint, which had the port before, may have connections.
    pub fn has_predecessor(&self) -> bool {
        self.neighbours.predecessor.is_some()
    }

    /// The next datagram that may belong to a connection of the predecessor, and to none here.
    pub fn poll_detour(&mut self) -> Option<Detour> {
        self.neighbours.predecessor.as_mut()?.detours.pop_front()
    }

    /// The predecessor reports something.
    pub fn handle_from_predecessor(&mut self, report: FromPredecessor) {
        let Some(predecessor) = &mut self.neighbours.predecessor else { return };
        match report {
            FromPredecessor::Claim { offer, claimed } => {
                if let Some(withheld) = predecessor.take(offer) {
                    self.conclude(withheld, claimed);
                }
            }
            FromPredecessor::Settled => {
                for withheld in predecessor.end_handshakes() {
                    self.conclude(withheld, false);
                }
            }
        }
    }

    /// The predecessor has no connections any more. Packets of unknown connections are answered again.
    pub fn handle_predecessor_gone(&mut self) {
        self.handle_from_predecessor(FromPredecessor::Settled);
        self.neighbours.predecessor = None;
    }

    /// Another endpoint, the successor, takes the port over. This one accepts no handshake any more, except those that
    /// [`super::EndpointEvent::Incoming`] has reported, and serves its connections by [`Self::handle_detours`].
    pub fn retire(&mut self, now: Instant) {
        self.neighbours.retirement = Some(Retirement::new(now));
    }

    /// Whether a successor has the port.
    pub fn is_retired(&self) -> bool {
        self.neighbours.retirement.is_some()
    }

    /// The successor is gone; this endpoint has the port again, and accepts.
    pub fn resume(&mut self) {
        self.neighbours.retirement = None;
    }

    /// Datagrams that the successor has received and that none of its connections owns.
    pub fn handle_detours(&mut self, now: Instant, detours: impl IntoIterator<Item = Detour>) {
        let detours = detours.into_iter();
        self.handle_all(
            now,
            detours
                .map(|Detour { meta, datagram, offer }| (meta, datagram, DatagramOrigin::Successor(offer))),
        );
    }

    /// The next report for the successor.
    pub fn poll_for_successor(&mut self) -> Option<FromPredecessor> {
        self.neighbours.retirement.as_mut()?.reports.pop_front()
    }

    /// No connection here owns a QUIC datagram. Passes it to the predecessor, or answers the successor; returns what
    /// else this endpoint should do about the datagram.
    pub(super) fn handle_unowned(
        &mut self,
        now: Instant,
        aside: Aside,
        routed: Option<RoutedDatagram>,
        response: &mut Vec<u8>,
    ) -> Option<RoutedDatagram> {
        let Aside { meta, copy, origin, has_long_header, .. } = aside;
        // Perhaps the datagram was stored for a handshake that waits for an answer.
        let stored = routed.is_none() && self.has_waiting();
        let routed = self.decline_if_retired(routed);
        let by_successor = matches!(origin, DatagramOrigin::Successor(_));
        let Some((copy, predecessor)) = copy.zip(self.neighbours.predecessor.as_mut()) else {
            if let DatagramOrigin::Successor(Some(offer)) = origin {
                self.neighbours.claim(offer, stored);
            }
            // The successor has its own answer to the first packet of a connection.
            return routed.filter(|_| !(by_successor && has_long_header));
        };
        let withheld = match (routed, origin) {
            (_, DatagramOrigin::Successor(Some(offer))) if stored => {
                self.neighbours.claim(offer, true);
                return None;
            }
            (_, DatagramOrigin::Successor(Some(offer))) => Withheld::Relayed(offer),
            (Some(RoutedDatagram::Incoming(incoming)), _) => {
                self.withhold_incoming(now, (meta, copy), incoming);
                return None;
            }
            (Some(RoutedDatagram::Response(transmit)), _) if has_long_header && !by_successor => {
                Withheld::Response(transmit, std::mem::take(response))
            }
            _ => {
                predecessor.push(meta, copy);
                return None;
            }
        };
        // Without room for it the client sends the packet again.
        let _ = predecessor.offer(now, (meta, copy), withheld);
        None
    }

    /// A retired endpoint accepts nobody; the client's packet is for the successor.
    fn decline_if_retired(&mut self, routed: Option<RoutedDatagram>) -> Option<RoutedDatagram> {
        match routed {
            Some(RoutedDatagram::Incoming(incoming)) if self.neighbours.retirement.is_some() => {
                self.quic.ignore(incoming);
                None
            }
            routed => routed,
        }
    }

    fn withhold_incoming(&mut self, now: Instant, offered: (DatagramMeta, BytesMut), incoming: Incoming) {
        let Some(predecessor) = &mut self.neighbours.predecessor else { return };
        let remote = incoming.remote_address();
        match predecessor.offer(now, offered, Withheld::Incoming(incoming)) {
            // Undecryptable data may arrive before the answer.
            Ok(()) => self.receivers.begin_handshake(remote),
            Err(Withheld::Incoming(incoming)) => self.quic.ignore(incoming),
            Err(_) => {}
        }
    }

    /// The predecessor has answered an offer, or cannot any more.
    fn conclude(&mut self, withheld: Withheld, claimed: bool) {
        match withheld {
            Withheld::Incoming(incoming) if claimed || self.neighbours.retirement.is_some() => {
                self.receivers.give_up_handshake(incoming.remote_address());
                self.quic.ignore(incoming);
            }
            Withheld::Incoming(incoming) => self.hand_out(incoming),
            Withheld::Response(transmit, response) if !claimed => self.respond(transmit, response),
            Withheld::Response(..) => {}
            Withheld::Relayed(offer) => self.neighbours.claim(offer, claimed),
        }
    }

    /// What is due by [`super::Endpoint::poll_timeout`].
    pub(super) fn handle_succession_timeout(&mut self, now: Instant) {
        while let Some(withheld) =
            self.neighbours.predecessor.as_mut().and_then(|predecessor| predecessor.pop_expired(now))
        {
            self.conclude(withheld, false);
        }
        let handshaking = !self.receivers.undecryptable.is_idle()
            || self.neighbours.predecessor.as_ref().is_some_and(|before| before.handshaking);
        if let Some(retirement) = &mut self.neighbours.retirement {
            retirement.check(now, handshaking);
        }
    }

    /// Whether handshakes wait for an answer, of the application or of the predecessor.
    fn has_waiting(&self) -> bool {
        self.admission.stats.waiting > 0
            || self.neighbours.predecessor.as_ref().is_some_and(|before| !before.withheld.is_empty())
    }
}
