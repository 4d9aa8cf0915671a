//! Which address of the peer both loops may send to: what [`Addresses`] allows, applied to what comes and goes.

use std::{net::SocketAddr, time::Instant};

use super::Connection;
use crate::{
    laws::addresses::Addresses,
    quic::Side,
    seams::{
        keys::{Sealer, Sealing},
        qlog::QlogEvent,
    },
    transmit::Transmit,
    units::Level,
    wire::{control::ControlFrame, frame},
};

/// Round trips before an unproven address is asked again.
const ASK_ROUND_TRIPS: u32 = 3;

/// The level in the header of a datagram that leaves at the primary's priority, for want of a better one.
const HEADER_LEVEL: Level = Level::FIRST;

/// The least that a QUIC packet with a PING is long: header of 1 byte, connection id of 8, packet number and frame of 4 in all,
/// tag of 16; a little less, for peers that choose short ids.
const PING_BYTES_MIN: u16 = 25;

/// A datagram with one SOLICIT.
const SOLICIT_BYTES: usize = Sealer::OVERHEAD + 1;

impl Connection {
    /// The handshake has proved the peer's address.
    pub(super) fn prove_handshake(&mut self) {
        // Not where the primary sends by now: a later datagram of the same batch may have moved that.
        self.addresses = Some(Addresses::new(self.primary.validated()));
    }

    /// The last address of the peer that has proved that it receives; that of the handshake to begin with.
    pub(crate) fn proven_address(&self) -> SocketAddr {
        self.primary.validated()
    }

    /// Whether the peer receives at the address that the primary sends to. Until the handshake is complete the
    /// primary itself keeps the limit of RFC 9000 §8.1.
    pub(super) fn is_proven(&self) -> bool {
        let remote = self.primary.addresses().0;
        self.addresses.as_ref().is_none_or(|addresses| addresses.proven() == remote)
    }

    /// A datagram of QUIC came from `remote`. Whether the primary may see it: not while the answer to it could be more
    /// than `remote` may be sent; then that address is asked for more.
    pub(crate) fn admit(&mut self, now: Instant, remote: SocketAddr, bytes: usize) -> bool {
        let Some(addresses) = &mut self.addresses else { return true };
        // Clients know no other address of their server.
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

    /// An RLP datagram that authenticated came from `remote`.
    pub(crate) fn on_rlp_from(&mut self, remote: SocketAddr, bytes: usize) {
        if let Some(addresses) = &mut self.addresses {
            addresses.on_received(remote, bytes);
        }
    }

    /// Asks the unproven address heard from last for a long datagram, or grants it one answer where that is impossible.
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

    /// The question, into the empty `buf`, if one is due.
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

    /// How many datagrams of the primary may go to where it sends now.
    pub(super) fn datagrams_allowed(&self, datagrams_max: usize) -> usize {
        let Some(addresses) = self.addresses.as_ref().filter(|_| !self.is_proven()) else {
            return datagrams_max;
        };
        let allowance = addresses.allowance(self.primary.addresses().0);
        let datagrams = allowance / u64::from(self.primary.window().mtu.max(1));
        datagrams_max.min(usize::try_from(datagrams).unwrap_or(usize::MAX))
    }

    /// Whether a datagram of the primary may leave, and accounts for it. One that may not is lost: a probe of the path
    /// MTU, or an answer to somebody who only tries an address (RFC 9000 §8.2.2).
    pub(super) fn may_leave(&mut self, transmit: &Transmit) -> bool {
        let Some(addresses) = &mut self.addresses else { return true };
        let allowed = transmit.size as u64 <= addresses.allowance(transmit.destination);
        if allowed {
            addresses.on_sent(transmit.destination, transmit.size);
        }
        allowed
    }

    /// Lets RLP follow the primary to an address that has proved itself.
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

    /// Whether the peer has proved another address since the last call.
    pub(crate) fn take_path_change(&mut self) -> bool {
        std::mem::take(&mut self.sched.path_changed)
    }

    /// The peer's PATH_RESPONSE may have validated the path: the next packet shows it.
    pub(super) fn look_for_validation(&mut self) {
        if self.addresses.is_some() && self.primary.may_be_validated() {
            self.primary.probe_at_once();
        }
    }

    /// Our own address has changed: what leaves from the new one names the peer anew, and shows it where to answer.
    pub(super) fn move_away(&mut self) {
        self.change_receiver_id();
        self.announce();
    }

    /// RLP datagrams leave on another path from now on: with another receiver id, and the peer hears which.
    fn change_receiver_id(&mut self) {
        // A client in its handshake has one path only (RFC 9000 §9).
        let established = !self.primary.is_handshaking();
        if let Some(number) = self.rlp().filter(|_| established).map(|rlp| rlp.seal().change_path()) {
            self.send_control(ControlFrame::Path(number));
        }
    }

    /// The peer is to see our address and may answer there in full: a long datagram goes out, and one of the primary; or
    /// as many of the primary as make up for a long one.
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

    /// The long datagram, into the empty `buf`, if it is due: PADDING alone.
    pub(super) fn write_announcement(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !std::mem::take(&mut self.announcing) || self.lost.is_some() || !self.is_proven() {
            return None;
        }
        self.write_padding(usize::from(self.primary.window().mtu), buf)
    }

    /// An RLP datagram of `len` bytes of UDP payload that says nothing, into the empty `buf`.
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
