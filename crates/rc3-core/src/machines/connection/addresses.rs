//! Which address of the peer both loops may send to: applies [`Addresses`] to inputs and outputs.

use std::{net::SocketAddr, time::Instant};

use super::Connection;
use crate::{
    laws::addresses::Addresses,
    quic::Side,
    seams::{
        keys::{ReceiverId, Sealer, Sealing},
        qlog::QlogEvent,
    },
    transmit::Transmit,
    units::Level,
    wire::{control::ControlFrame, frame},
};

/// Round trips before an address is asked again.
const ASK_ROUND_TRIPS: u32 = 3;

/// The level in the header of a datagram at the primary's priority, which has no number of its own there.
const HEADER_LEVEL: Level = Level::FIRST;

/// Shortest QUIC packet with a PING: header of 1 byte, connection id of 8, packet number and frame of 4 in total, tag
/// of 16; a little less, for peers with short ids.
const PING_BYTES_MIN: u16 = 25;

/// A datagram with one SOLICIT.
const SOLICIT_BYTES: usize = Sealer::OVERHEAD + 1;

impl Connection {
    /// The handshake validated the peer's address.
    pub(super) fn prove_handshake(&mut self) {
        // Not the primary's current destination: a later datagram of the same batch may have moved that.
        self.addresses = Some(Addresses::new(self.primary.validated()));
    }

    /// The peer's last validated address; initially that of the handshake.
    pub(crate) fn proven_address(&self) -> SocketAddr {
        self.primary.validated()
    }

    /// Whether the primary's destination is validated. Until the handshake is complete the primary itself enforces the
    /// limit of RFC 9000 §8.1.
    pub(super) fn is_proven(&self) -> bool {
        let remote = self.primary.addresses().0;
        self.addresses.as_ref().is_none_or(|addresses| addresses.proven() == remote)
    }

    /// A QUIC datagram arrived from `remote`. Returns whether the primary may process it: not while its answer could
    /// exceed the allowance of `remote`; that address is then asked for more.
    pub(crate) fn admit(&mut self, now: Instant, remote: SocketAddr, bytes: usize) -> bool {
        let Some(addresses) = &mut self.addresses else { return true };
        // Clients accept no other address of their server.
        if remote == addresses.proven() || self.primary.side() == Side::Client {
            return true;
        }
        addresses.on_received(remote, bytes);
        if addresses.allowance(remote) >= u64::from(self.primary.window().mtu) || self.ask(now) {
            return true;
        }
        self.received.unproven_discarded += 1;
        false
    }

    /// An authenticated RLP datagram arrived from `remote`.
    pub(crate) fn on_rlp_from(&mut self, remote: SocketAddr, bytes: usize) {
        if let Some(addresses) = &mut self.addresses {
            addresses.on_received(remote, bytes);
        }
    }

    /// Asks the unvalidated address that sent last for a long datagram, or grants it one answer if it cannot be asked.
    fn ask(&mut self, now: Instant) -> bool {
        let again = now + self.primary.rtt() * ASK_ROUND_TRIPS;
        let mtu = u64::from(self.primary.window().mtu);
        let speaks_rlp = self.rlp().is_some();
        let Some(addresses) = &mut self.addresses else { return false };
        if !speaks_rlp {
            return addresses.grant(now, mtu);
        }
        if let Some(remote) = addresses.ask(again, SOLICIT_BYTES) {
            self.soliciting = Some(remote);
        }
        false
    }

    /// Writes the request into the empty `buf`, if one is due.
    pub(super) fn write_solicit(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let destination = self.soliciting.take().filter(|_| self.lost.is_none())?;
        let transmit = self.write_alone(destination, Sealer::begin_on_next_path, frame::emit_solicit, buf)?;
        self.addresses.as_mut()?.on_sent(destination, transmit.size);
        Some(transmit)
    }

    /// The peer asks for a long datagram.
    pub(super) fn on_solicit(&mut self, now: Instant) {
        if self.announced.is_none_or(|at| now >= at + self.primary.rtt()) {
            self.announced = Some(now);
            self.announce();
        }
    }

    /// When to ask again.
    pub(super) fn ask_at(&self) -> Option<Instant> {
        self.addresses.as_ref().and_then(Addresses::ask_at)
    }

    /// A deadline of [`Self::ask_at`] may have passed.
    pub(super) fn ask_again(&mut self, now: Instant) {
        if self.ask_at().is_some_and(|at| at <= now) {
            self.ask(now);
        }
    }

    /// How many datagrams of the primary may go to its destination now.
    pub(super) fn datagrams_allowed(&self, datagrams_max: usize) -> usize {
        let Some(addresses) = self.addresses.as_ref().filter(|_| !self.is_proven()) else {
            return datagrams_max;
        };
        let allowance = addresses.allowance(self.primary.addresses().0);
        let datagrams = allowance / u64::from(self.primary.window().mtu.max(1));
        datagrams_max.min(usize::try_from(datagrams).unwrap_or(usize::MAX))
    }

    /// Counts a datagram of the primary and returns whether it may leave. Otherwise it is dropped: a probe of the path
    /// MTU, or an answer to a client that only tries an address (RFC 9000 §8.2.2).
    pub(super) fn may_leave(&mut self, transmit: &Transmit) -> bool {
        let Some(addresses) = &mut self.addresses else { return true };
        let allowed = transmit.size as u64 <= addresses.allowance(transmit.destination);
        if allowed {
            addresses.on_sent(transmit.destination, transmit.size);
        }
        allowed
    }

    /// Lets RLP follow the primary to a validated address.
    pub(super) fn follow_path(&mut self, now: Instant) {
        let validated = self.primary.validated();
        let Some(addresses) = self.addresses.as_mut().filter(|addresses| addresses.proven() != validated)
        else {
            return;
        };
        let before = addresses.proven();
        addresses.prove(validated);
        tracing::debug!(remote = %validated, "path changed");
        self.trace.emit(now, || QlogEvent::PathChanged { remote: validated });
        let rtt = self.primary.rtt();
        self.sched.path_changed = true;
        self.rlp_wake = None;
        if let Some(rlp) = self.rlp() {
            rlp.on_new_path(before, validated, rtt);
        }
        self.change_receiver_id();
    }

    /// Whether another address of the peer was validated since the last call.
    pub(crate) fn take_path_change(&mut self) -> bool {
        std::mem::take(&mut self.sched.path_changed)
    }

    /// The peer's PATH_RESPONSE may have validated the path: the next packet shows it.
    pub(super) fn look_for_validation(&mut self) {
        if self.addresses.is_some() && self.primary.may_be_validated() {
            self.primary.probe_at_once();
        }
    }

    /// The local address has changed: the next packets leave from the new one and show it to the peer.
    pub(super) fn move_away(&mut self) {
        self.change_receiver_id();
        self.announce();
    }

    /// RLP datagrams leave on another path from now on: with another receiver id, which the peer is informed of.
    fn change_receiver_id(&mut self) {
        // A client in its handshake has one path only (RFC 9000 §9).
        let established = !self.primary.is_handshaking();
        if let Some(number) = self.rlp().filter(|_| established).map(|rlp| rlp.seal().change_path()) {
            self.send_control(ControlFrame::Path(number));
        }
    }

    /// The peer has chosen its receiver id on the path with this number. Early data has only the derived one.
    pub(super) fn on_receiver_id(&mut self, number: u64, id: ReceiverId) {
        let established = !self.primary.is_handshaking();
        if let Some(rlp) = self.rlp().filter(|_| established) {
            rlp.seal().on_chosen_id(number, id);
        }
    }

    /// The peer needs to see the local address and must be allowed a full answer there: sends a long datagram and one
    /// of the primary, or enough of the primary instead of the long one.
    fn announce(&mut self) {
        self.announcing = self.rlp().is_some();
        let third = self.primary.window().mtu / 3;
        self.pings = if self.announcing { 1 } else { third.div_ceil(PING_BYTES_MIN) };
    }

    /// Lets the primary send one of these.
    pub(super) fn announce_by_primary(&mut self) {
        if self.pings > 0 {
            self.pings -= 1;
            self.primary.probe_at_once();
        }
    }

    /// Writes the long datagram into the empty `buf`, if it is due: only PADDING.
    pub(super) fn write_announcement(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !std::mem::take(&mut self.announcing) || self.lost.is_some() || !self.is_proven() {
            return None;
        }
        self.write_padding(usize::from(self.primary.window().mtu), buf)
    }

    /// Writes an RLP datagram with `len` bytes of UDP payload and no content into the empty `buf`.
    pub(super) fn write_padding(&mut self, len: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        let padding = len.saturating_sub(Sealer::OVERHEAD);
        // PADDING frames (docs/WIRE.md).
        let remote = self.remote_address();
        self.write_alone(remote, Sealer::begin, |buf| buf.resize(buf.len() + padding, 0), buf)
    }

    /// One RLP datagram at the primary's priority, into the empty `buf`.
    pub(super) fn write_alone(
        &mut self,
        destination: SocketAddr,
        begin: fn(&mut Sealer, Level, &mut Vec<u8>) -> Sealing,
        payload: impl FnOnce(&mut Vec<u8>),
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let source = self.primary.addresses().1;
        let seal = self.rlp()?.seal();
        let sealing = begin(seal, HEADER_LEVEL, buf);
        payload(buf);
        seal.finish(sealing, buf);
        Some(Transmit {
            destination,
            source,
            level: Level::PRIMARY,
            ecn: 0,
            size: buf.len(),
            segment_size: None,
            dont_fragment: true,
        })
    }
}
