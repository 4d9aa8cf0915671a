//! One QUIC connection, and its state in quinn-proto other than streams.

use std::{
    net::{IpAddr, SocketAddr},
    ops::Deref,
    sync::atomic::Ordering::Relaxed,
    time::Instant,
};

use bytes::Bytes;

use super::{
    Quic,
    controller::PacketPacing,
    mtu_discovery::udp_ip_headers,
    sample::{PathSample, without_ack_delay},
    seam::{ReceivedFrames, varint, with_control},
};
use crate::{
    laws::{departures::DepartureRate, feeding, primary_window::Waiting},
    quic::{ConnectionError, Dir, HandshakeData, SendDatagramError, TransportErrorCode, VarInt},
    seams::qlog::Trace,
};

impl Quic {
    /// Whether the peer's frames have arrived since the last call. A packet has at least one (RFC 9000 §12.4), which
    /// quinn-proto counts once the packet has proved authentic and new.
    pub(super) fn take_frames_received(&mut self) -> bool {
        let before = self.frames.all;
        self.frames = ReceivedFrames::of(&self.conn);
        self.frames.all > before
    }

    /// STREAM frames that have arrived.
    pub(crate) fn stream_frames(&self) -> u64 {
        self.frames.stream
    }

    /// The fates of packets since the last call; call it after each datagram and timeout.
    pub(crate) fn take_path_sample(&mut self, now: Instant) -> PathSample {
        let fates = self.shared.take_fates();
        let (before, after) = (self.rtt_before, self.conn.rtt());
        let acked = fates.acked.map(|sent| {
            let raw = now.saturating_duration_since(sent);
            (sent, before.map_or(raw, |before| without_ack_delay(raw, before, after)))
        });
        if before.is_some() || acked.is_some() {
            self.rtt_before = Some(after);
        }
        PathSample { acked, lost: fates.lost, acked_bytes: fates.acked_bytes }
    }

    /// A lost probe of the path MTU is no longer in flight, but the controller is not informed.
    pub(super) fn look_for_lost_probe(&mut self) {
        if self.shared.probing.load(Relaxed) > 0
            && self.conn.stats().path.lost_plpmtud_probes > self.lost_probes
        {
            self.shared.probing.store(0, Relaxed);
        }
    }

    /// Makes the primary send a packet that the peer acknowledges, even without data (PING, RFC 9000 §19.2). A closed window
    /// does not delay it.
    pub(crate) fn probe_at_once(&mut self) {
        self.shared.window_open.store(true, Relaxed);
        self.waiting = Waiting::ForPacer;
        self.conn.ping();
    }

    /// The peer's last validated address; initially that of the handshake.
    pub(crate) fn validated(&self) -> SocketAddr {
        self.validation.validated
    }

    /// Whether a packet now would show that the path is validated.
    pub(crate) fn may_be_validated(&self) -> bool {
        self.validation.is_answered(&self.conn)
    }

    /// The pacing rate, from routers or the controller, or where quinn-proto's pacer would compute with a wrong round trip.
    /// Without one, that pacer decides.
    pub(crate) fn rate(&self) -> Option<DepartureRate> {
        match &self.steering {
            Some(steering) => steering.pace(),
            None => self.shared.rate().or_else(|| {
                let rtt = self.silence.rtt_instead_of(self.conn.rtt())?;
                // As quinn-proto, a quarter faster than a window in a round trip (RFC 9002 §7.7).
                DepartureRate::from_bytes_per_second(1.25 * self.window().cwnd as f64 / rtt.as_secs_f64())
            }),
        }
    }

    /// With a rate, checks whether a packet may leave at `now`. Call it before bytes are handed over.
    pub(crate) fn pace(&mut self, now: Instant) {
        let (pace, due) = match self.rate() {
            _ if self.silence.asked_since().is_some() => (PacketPacing::Hold, 0),
            None => (PacketPacing::Quinn, u64::MAX),
            Some(rate) if self.departures.next(rate) <= now => {
                (PacketPacing::Due, feeding::due(rate, self.conn.current_mtu()))
            }
            Some(_) => (PacketPacing::Hold, 0),
        };
        self.shared.set_pace(pace);
        self.due = due;
    }

    /// There is no more to send now. `waiting`: because of the pace, if there is a rate.
    pub(crate) fn rest(&mut self, waiting: bool) {
        // In a silence, an answer ends the wait, not a time.
        let waiting = waiting && self.shared.is_held() && self.silence.asked_since().is_none();
        self.departures.backlogged = waiting;
        self.departure = self.rate().filter(|_| waiting).map(|rate| self.departures.next(rate));
    }

    /// `bytes` of paced UDP payload have left. `rate`: the rate that allowed them; sending may have changed it since.
    pub(crate) fn on_departed(&mut self, now: Instant, rate: Option<DepartureRate>, bytes: usize) {
        if let Some(rate) = rate {
            // Routers count all of a packet; a controller's rate, as its window, is of UDP payload (RFC 9002 §B.1).
            let headers = if self.steering.is_some() { udp_ip_headers(self.remote) } else { 0 };
            self.departures.on_sent(now, rate, (bytes + headers) as u64);
        }
    }

    /// When to ask the peer for an acknowledgement, if one is missing or quinn-proto would stop for ever without it.
    pub(super) fn silence_deadline(&self) -> Option<Instant> {
        let window = self.window();
        // A change of path ends what is in flight, and not the wait for an answer.
        let waits = self.silence.asked_since().is_some()
            || window.in_flight > 0
            || window.packets() == 0
            || self.waiting == Waiting::ForWindow;
        let is_open = !self.conn.is_handshaking() && !self.conn.is_closed();
        (self.asks && waits && is_open).then(|| self.silence.deadline(self.conn.rtt()))
    }

    /// Since when the peer has acknowledged nothing, if it was asked in vain.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        self.silence.asked_since()
    }

    /// Whether written data may wait until the client's address is validated (RFC 9000 §8.1). quinn-proto does not ask the
    /// controller then, as if it had nothing to send.
    pub(super) fn waits_for_validation(&self) -> bool {
        if !self.fed || self.validated_before || !self.conn.is_handshaking() {
            return false;
        }
        let stats = self.conn.stats();
        3 * stats.udp_rx.bytes < stats.udp_tx.bytes + u64::from(self.conn.current_mtu()) + 1
    }

    /// The qlog file of this connection.
    pub(crate) fn take_trace(&mut self) -> Trace {
        std::mem::take(&mut self.trace)
    }

    /// Sets whether bytes are handed over late from now on: the controller then uses [`Self::set_app_limited`].
    pub(crate) fn set_fed_late(&mut self, fed_late: bool) {
        self.shared.fed_late.store(fed_late, Relaxed);
    }

    /// Whether 0-RTT data can be sent, and if so, whether as rc3, like the resumed session.
    pub(crate) fn zero_rtt_as_rc3(&self) -> Option<bool> {
        if !self.conn.has_0rtt() || self.conn.side().is_server() {
            return None;
        }
        self.sessions.as_ref()?.resumed()
    }

    /// The 0-RTT data was rejected: quinn-proto has dropped its packets without an event.
    pub(crate) fn on_early_rejected(&mut self) {
        self.shared.in_flight.store(0, Relaxed);
        self.waiting = Waiting::ForPacer;
    }

    /// The protocol is agreed: new session tickets belong to it.
    pub(crate) fn on_negotiated(&mut self, rc3: bool) {
        if let Some(sessions) = &self.sessions {
            sessions.on_negotiated(rc3);
        }
    }

    /// A server that accepts early data although its limits have become smaller breaks RFC 9000 §7.4.1, and quinn-proto
    /// ends the connection. The next one starts without a session.
    pub(super) fn judge_session(&self, reason: &ConnectionError) {
        if let (Some(sessions), ConnectionError::TransportError(error)) = (&self.sessions, reason)
            && error.code == TransportErrorCode::PROTOCOL_VIOLATION
        {
            sessions.forget_server();
        }
    }

    /// Queues an application datagram (RFC 9221). With `drop_old` it replaces older waiting ones, otherwise it may have
    /// to wait itself.
    pub(crate) fn send_datagram(&mut self, data: Bytes, drop_old: bool) -> Result<(), SendDatagramError> {
        self.waiting = Waiting::ForPacer;
        self.conn.datagrams().send(data, drop_old)
    }

    /// Received datagrams, and the room for those to send.
    pub(crate) fn datagrams(&mut self) -> quinn_proto::Datagrams<'_> {
        self.conn.datagrams()
    }

    /// How many streams the peer may have open at once, and how many the current limit allows.
    pub(crate) fn set_max_concurrent_streams(&mut self, dir: Dir, count: VarInt) {
        self.conn.set_max_concurrent_streams(dir, with_control(dir, count));
    }

    pub(crate) fn force_key_update(&mut self) {
        self.conn.force_key_update();
    }

    /// The local address has changed: sends a packet from the new one.
    pub(crate) fn on_local_address_changed(&mut self) {
        self.conn.local_address_changed();
    }

    /// RLP has this many bytes in flight, which share queues with what the primary sends in a round trip: RLP may have
    /// caused its losses.
    pub(crate) fn set_rlp_in_flight(&mut self, now: Instant, bytes: u64) {
        self.shared.add_rlp_in_flight(now, bytes, self.conn.rtt());
    }

    /// Bytes at which slow start ends without a loss, if the path is known so well.
    pub(crate) fn set_slow_start_max(&mut self, bytes: Option<u64>) {
        self.shared.slow_start_max.set(bytes.unwrap_or(u64::MAX));
    }

    /// The negotiated ALPN protocol and the server name, once known.
    pub(crate) fn handshake_data(&self) -> Option<HandshakeData> {
        let data = self.conn.crypto_session().handshake_data()?;
        Some(*data.downcast().ok()?)
    }

    pub(crate) fn close(&mut self, now: Instant, code: VarInt, reason: Bytes) {
        self.conn.close(now, code, reason);
    }

    /// Bytes the peer may send on all streams beyond what was read.
    pub(crate) fn set_receive_window(&mut self, bytes: u64) {
        self.conn.set_receive_window(varint(bytes));
    }

    /// Bytes that may wait for packets and acknowledgments.
    pub(crate) fn set_send_window(&mut self, bytes: u64) {
        self.conn.set_send_window(bytes);
    }

    /// Both ends of the current path, the local one if known. Cheaper than [`Self::path`].
    pub(crate) fn addresses(&self) -> (SocketAddr, Option<IpAddr>) {
        (self.conn.remote_address(), self.conn.local_ip())
    }
}

/// What can be read of a connection without a change.
impl Deref for Quic {
    type Target = quinn_proto::Connection;

    fn deref(&self) -> &Self::Target {
        &self.conn
    }
}
