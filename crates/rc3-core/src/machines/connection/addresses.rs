//! Which address of the peer both loops may send to: applies [`Addresses`] to inputs and outputs.

use std::{
    mem,
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use super::Connection;
use crate::{
    laws::{addresses::Addresses, verdicts},
    quic::Side,
    seams::{
        keys::{ReceiverId, Sealer},
        primary::quinn::Quic,
        qlog::QlogEvent,
    },
    transmit::Transmit,
    wire::{control::ControlFrame, frame},
};

/// Round trips before an address is asked again.
const ASK_ROUND_TRIPS: u32 = 3;

/// Shortest QUIC packet with a PING: header of 1 byte, connection id of 8, packet number and frame of 4 in total, tag
/// of 16; a little less, for peers with short ids.
const PING_BYTES_MIN: u16 = 25;

/// A datagram with one SOLICIT.
const SOLICIT_BYTES: usize = Sealer::OVERHEAD + 1;

/// The peer's addresses, and what each side must show the other of its own.
#[derive(Debug, Default)]
pub(super) struct PeerAddresses {
    /// `None` until the handshake is complete.
    known: Option<Addresses>,
    /// An address of the peer to be asked for a long datagram.
    soliciting: Option<SocketAddr>,
    /// Whether the peer needs a long datagram, and when it last asked for one.
    announcing: bool,
    announced: Option<Instant>,
    /// Packets of the primary to send so that the peer learns this address.
    pings: u16,
    /// Another address was validated, or this host has moved, and the endpoint has not asked since.
    changed: bool,
    /// Where the newest authentic datagram of the primary arrived, if the socket says so.
    local_ip: Option<IpAddr>,
}

impl PeerAddresses {
    /// The handshake validated the peer's address.
    pub(super) fn on_handshake(&mut self, primary: &Quic) {
        // Not the primary's current destination: a later datagram of the same batch may have moved that.
        self.known = Some(Addresses::new(primary.validated()));
    }

    /// Whether the primary's destination is validated. Until the handshake is complete the primary itself enforces the
    /// limit of RFC 9000 §8.1.
    pub(super) fn is_proven(&self, primary: &Quic) -> bool {
        let remote = primary.addresses().0;
        self.known.as_ref().is_none_or(|known| known.proven == remote)
    }

    /// Asks the unvalidated address that sent last for a long datagram, or grants it one answer if it cannot be asked.
    fn ask(&mut self, now: Instant, primary: &Quic, speaks_rlp: bool) -> bool {
        let Some(known) = &mut self.known else { return false };
        if !speaks_rlp {
            return known.grant(now, u64::from(primary.window().mtu));
        }
        if let Some(remote) = known.ask(now + primary.rtt() * ASK_ROUND_TRIPS, SOLICIT_BYTES) {
            self.soliciting = Some(remote);
        }
        false
    }

    /// When to ask again.
    pub(super) fn ask_at(&self) -> Option<Instant> {
        self.known.as_ref().and_then(Addresses::ask_at)
    }

    /// A deadline of [`Self::ask_at`] may have passed.
    pub(super) fn on_timeout(&mut self, now: Instant, primary: &Quic, speaks_rlp: bool) {
        if self.ask_at().is_some_and(|at| at <= now) {
            self.ask(now, primary, speaks_rlp);
        }
    }

    /// Returns once for each packet that the primary should send to show the local address.
    pub(super) fn take_ping(&mut self) -> bool {
        let left = self.pings.checked_sub(1);
        self.pings = left.unwrap_or(0);
        left.is_some()
    }

    /// How many datagrams of the primary may be made for its destination now. One may always show that the destination is
    /// validated; if it does not, [`Self::charge`] drops it.
    pub(super) fn datagrams_allowed(&self, primary: &Quic, datagrams_max: usize) -> usize {
        let Some(known) = self.known.as_ref().filter(|_| !self.is_proven(primary)) else {
            return datagrams_max;
        };
        let datagrams = known.allowance(primary.addresses().0) / u64::from(primary.window().mtu.max(1));
        let shown = usize::from(primary.may_be_validated());
        datagrams_max.min(usize::try_from(datagrams).unwrap_or(usize::MAX).max(shown))
    }

    /// Counts a datagram of the primary against the allowance of its destination. `false`: that has not enough left. The
    /// datagram is then dropped: a probe of the path MTU, or an answer to a client that only tries an address (RFC 9000
    /// §8.2.2).
    pub(super) fn charge(&mut self, transmit: &Transmit) -> bool {
        let Some(known) = &mut self.known else { return true };
        let allowed = transmit.size as u64 <= known.allowance(transmit.destination);
        if allowed {
            known.on_sent(transmit.destination, transmit.size);
        }
        allowed
    }

    /// The primary may have validated another address: returns the one before.
    fn take_validated(&mut self, validated: SocketAddr) -> Option<SocketAddr> {
        let known = self.known.as_mut().filter(|known| known.proven != validated)?;
        let before = known.proven;
        known.prove(validated);
        self.changed = true;
        Some(before)
    }
}

impl Connection {
    /// The peer's last validated address; initially that of the handshake.
    pub(crate) fn proven_address(&self) -> SocketAddr {
        self.primary.validated()
    }

    /// The local network of the path, if known.
    pub(crate) fn network(&self) -> Option<IpAddr> {
        self.local_ip().or(self.addresses.local_ip).map(verdicts::network_of)
    }

    /// A QUIC datagram arrived from `remote`. Returns whether the primary may process it: not while its answer could
    /// exceed the allowance of `remote`; that address is then asked for more.
    pub(crate) fn admit(&mut self, now: Instant, remote: SocketAddr, bytes: usize) -> bool {
        let speaks_rlp = self.rlp().is_some();
        let Self { addresses, primary, .. } = self;
        let Some(known) = &mut addresses.known else { return true };
        // Clients accept no other address of their server.
        if remote == known.proven || primary.side() == Side::Client {
            return true;
        }
        known.on_received(remote, bytes);
        // Where the primary sends already, nothing makes it change its path and answer at once: what it sends is charged.
        // The answer to its PATH_CHALLENGE may be short.
        if remote == primary.addresses().0
            || known.allowance(remote) >= u64::from(primary.window().mtu)
            || addresses.ask(now, primary, speaks_rlp)
        {
            return true;
        }
        self.telemetry.received.unproven_discarded += 1;
        false
    }

    /// An authenticated RLP datagram arrived from `remote`.
    pub(crate) fn on_rlp_from(&mut self, remote: SocketAddr, bytes: usize) {
        if let Some(known) = &mut self.addresses.known {
            known.on_received(remote, bytes);
        }
    }

    /// Writes the request for a long datagram into the empty `buf`, if one is due.
    pub(super) fn write_solicit(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let destination = self.addresses.soliciting.take().filter(|_| self.lost().is_none())?;
        let path = (destination, self.primary.addresses().1);
        let transmit = self.rlp()?.write_alone(path, Sealer::begin_on_next_path, frame::emit_solicit, buf);
        self.addresses.known.as_mut()?.on_sent(destination, transmit.size);
        Some(transmit)
    }

    /// The peer asks for a long datagram.
    pub(super) fn on_solicit(&mut self, now: Instant) {
        if self.addresses.announced.is_none_or(|at| now >= at + self.primary.rtt()) {
            self.addresses.announced = Some(now);
            self.announce();
        }
    }

    /// The peer needs to see the local address and must be allowed a full answer there: sends a long datagram and one
    /// of the primary, or enough of the primary instead of the long one.
    fn announce(&mut self) {
        let speaks_rlp = self.rlp().is_some();
        let third = self.primary.window().mtu / 3;
        self.addresses.announcing = speaks_rlp;
        self.addresses.pings = if speaks_rlp { 1 } else { third.div_ceil(PING_BYTES_MIN) };
    }

    /// Writes the long datagram into the empty `buf`, if it is due: only PADDING.
    pub(super) fn write_announcement(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !mem::take(&mut self.addresses.announcing)
            || self.lost().is_some()
            || !self.addresses.is_proven(&self.primary)
        {
            return None;
        }
        self.write_padding(usize::from(self.primary.window().mtu), buf)
    }

    /// Writes an RLP datagram with `len` bytes of UDP payload and no content into the empty `buf`.
    pub(super) fn write_padding(&mut self, len: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        let padding = len.saturating_sub(Sealer::OVERHEAD);
        let path = self.primary.addresses();
        // PADDING frames (docs/WIRE.md).
        let pad = |buf: &mut Vec<u8>| buf.resize(buf.len() + padding, 0);
        Some(self.rlp()?.write_alone(path, Sealer::begin, pad, buf))
    }

    /// Lets RLP use the address to which the primary sends, once that is validated.
    pub(super) fn move_rlp(&mut self, now: Instant) {
        let validated = self.primary.validated();
        let Some(before) = self.addresses.take_validated(validated) else { return };
        tracing::debug!(remote = %validated, "path changed");
        self.telemetry.trace.emit(now, || QlogEvent::PathChanged { remote: validated });
        let rtt = self.primary.rtt();
        if let Some(rlp) = self.rlp() {
            rlp.on_new_path(before, validated, rtt);
        }
        self.change_receiver_id();
    }

    /// An authentic datagram of the primary arrived at this address. If that is in another network, nothing is known of the
    /// path from there.
    pub(super) fn arrived_at(&mut self, local_ip: Option<IpAddr>) {
        if local_ip.is_none() || local_ip == self.addresses.local_ip {
            return;
        }
        let before = self.network();
        self.addresses.local_ip = local_ip;
        if before.is_none() || self.network() == before {
            return;
        }
        let rtt = self.primary.rtt();
        self.addresses.changed = true;
        if let Some(rlp) = self.rlp() {
            rlp.leave_path(rtt);
        }
    }

    /// Whether the path has changed since the last call: another address of the peer was validated, or this host has moved.
    pub(crate) fn take_path_change(&mut self) -> bool {
        mem::take(&mut self.addresses.changed)
    }

    /// The peer's PATH_RESPONSE may have validated the path: the next packet shows it.
    pub(super) fn look_for_validation(&mut self) {
        if self.addresses.known.is_some() && self.primary.may_be_validated() {
            self.primary.probe_at_once();
        }
    }

    /// The connection's datagrams come from another local address from now on: the next packets show it to the peer.
    pub(crate) fn handle_local_address_change(&mut self) {
        if self.lost().is_none() && !self.primary.is_handshaking() {
            self.primary.on_local_address_changed();
            self.change_receiver_id();
            self.announce();
        }
    }

    /// RLP datagrams leave on another path from now on: with another receiver id, which the peer is informed of.
    fn change_receiver_id(&mut self) {
        // A client in its handshake has one path only (RFC 9000 §9).
        let established = !self.primary.is_handshaking();
        if let Some(number) = self.rlp().filter(|_| established).map(|rlp| rlp.seal.change_path()) {
            self.send_control(ControlFrame::Path(number));
        }
    }

    /// The peer has chosen its receiver id on the path with this number. Early data has only the derived one.
    pub(super) fn on_receiver_id(&mut self, number: u64, id: ReceiverId) {
        let established = !self.primary.is_handshaking();
        if let Some(rlp) = self.rlp().filter(|_| established) {
            rlp.seal.ids.on_chosen(number, id);
        }
    }
}
