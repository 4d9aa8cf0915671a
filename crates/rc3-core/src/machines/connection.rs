//! One connection: routes inputs and outputs between the primary, the RLP loop and the streams.
//!
//! Methods are of four kinds: inputs (`handle_*`), the application's commands, outputs (`poll_*`) and getters.
//! After every input or command, drain the outputs: `poll_event`, `poll_primary` until `None`, `poll_rlp` while the
//! network takes it, then arm a timer for `poll_timeout`. Time never runs backwards.

mod addresses;
mod control;
mod datagrams;
mod events;
mod feed;
mod guard;
mod limits;
mod memory;
mod rate_signals;
mod receive;
mod rlp_transmit;
mod sacks;
pub(crate) mod secrets;
mod source;
mod unread;
mod zero_rtt;

use std::{
    collections::VecDeque,
    fmt,
    net::{IpAddr, SocketAddr},
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};

use self::rate_signals::RateSignals;
use self::{addresses::PeerAddresses, memory::Memory, secrets::RlpSecrets};
use crate::{
    config::{Congestion, TransportConfig},
    error::{ClosedStream, PeerMisbehaved, ReadError},
    event::Event,
    laws::{
        ack_frequency::AckFrequency,
        primary_window::Waiting,
        shares::{Shares, Use},
    },
    machines::{
        overlay::Overlay,
        rlp::{Rlp, watch::PathLaws},
        stream::{send::SendStream, set::Streams, writers::SendRoom},
        telemetry::Telemetry,
    },
    quic::{
        ConnectionError, Dir, FinishError, HandshakeData, Side, StreamId, TransportError, VarInt, WriteError,
        congestion::Controller,
    },
    seams::{
        keys::{IdChange, OpenError, ReceiverId},
        primary::quinn::Quic,
        qlog::QlogEvent,
    },
    stats::{ConnectionStats, ReceivedStats, SentStats},
    structures::reassembler::Chunk,
    transmit::Transmit,
    units::Level,
    wire::{
        alpn,
        control::ControlFrame,
        frame::{Frame, Frames},
    },
};

/// One connection, client or server side.
///
/// Get one with [`Endpoint::with_connection`](crate::Endpoint::with_connection), which also services it afterwards.
///
/// ```
/// use rc3_core::{Dir, Event, ReadError};
/// use rc3_sim::{LinkConfig, Pair, PairConfig};
///
/// // Two endpoints with a simulated link between them; `drive` is their poll loop.
/// let mut pair = Pair::new(PairConfig::symmetric(LinkConfig::default(), 1 << 20));
/// let client = pair.connect();
/// pair.drive();
/// let stream = pair.client.with(client, |connection| {
///     let stream = connection.open(Dir::Uni).expect("the handshake is complete");
///     assert_eq!(connection.write(stream, "hello".into()), Ok(5));
///     connection.finish(stream).map(|()| stream)
/// })?;
/// pair.drive();
/// assert!(pair.client.events.contains(&(client, Event::Finished(stream))), "all of it has arrived");
///
/// let server = pair.server.accepted[0];
/// pair.server.with(server, |connection| {
///     assert_eq!(connection.accept(Dir::Uni), Some(stream));
///     let chunk = connection.read(stream, usize::MAX, true)?.expect("bytes before the end");
///     assert_eq!((chunk.offset, &chunk.bytes[..]), (0, &b"hello"[..]));
///     assert_eq!(connection.read(stream, usize::MAX, true)?, None);
///     Ok::<(), ReadError>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Connection {
    pub(crate) primary: Quic,
    config: Arc<TransportConfig>,
    streams: Streams,
    /// Present if both sides use rc3.
    overlay: Option<Overlay>,
    events: VecDeque<Event>,
    memory: Memory,
    addresses: PeerAddresses,
    rate_signals: RateSignals,
    secrets: RlpSecrets,
    life: Life,
    telemetry: Telemetry,
    schedule: Schedule,
    ack_frequency: AckFrequency,
}

/// How far a connection has come.
#[derive(Debug, Default)]
struct Life {
    /// Streams may be open that the server has not accepted yet.
    early_offered: bool,
    /// The endpoint knows that the handshake has ended.
    handshake_ended: bool,
    /// A fault of the peer, to be answered with a close.
    fault: Option<PeerMisbehaved>,
    lost: Option<ConnectionError>,
}

/// What the endpoint has to do for the connection.
#[derive(Debug, Default)]
struct Schedule {
    /// A read changed credit or flow control, so the endpoint must service the connection.
    needs_service: bool,
    /// When to look for streams that nobody reads.
    look_at: Option<Instant>,
}

impl Connection {
    /// `credit`: what the primary grants its peer first, at most.
    pub(crate) fn new(
        mut primary: Quic,
        config: Arc<TransportConfig>,
        credit: u64,
        secrets: RlpSecrets,
    ) -> Self {
        Self {
            streams: Streams::default(),
            overlay: None,
            events: VecDeque::new(),
            memory: Memory::new(&config, primary.side(), credit),
            addresses: PeerAddresses::default(),
            rate_signals: RateSignals::default(),
            secrets,
            life: Life::default(),
            telemetry: Telemetry { trace: primary.take_trace(), ..Telemetry::default() },
            schedule: Schedule::default(),
            ack_frequency: AckFrequency::default(),
            config,
            primary,
        }
    }

    /// Whether reads since the last call changed credit or flow control.
    pub(crate) fn take_needs_service(&mut self) -> bool {
        std::mem::take(&mut self.schedule.needs_service) || !self.events.is_empty()
    }

    /// Whether the handshake has ended, successfully or not, since the last call.
    pub(crate) fn take_handshake_end(&mut self) -> bool {
        let ended = self.life.lost.is_some() || !self.primary.is_handshaking();
        ended && !std::mem::replace(&mut self.life.handshake_ended, true)
    }

    /// The connection may claim what `shares` leave to it.
    pub(crate) fn take_share(&mut self, shares: &Shares) {
        self.memory.take_share(shares);
    }

    /// Memory use: at the last call, and now.
    pub(crate) fn recount(&mut self) -> (Use, Use) {
        self.memory.recount(&self.streams)
    }

    // --- inputs ---

    /// Handles the consequences of inputs, once for any number of datagrams. The order matters: events of the primary
    /// come first, because they begin and end what the rest looks at; windows after samples and signals, which change
    /// the round trip and the rate; faults after everything that finds them; writers last, because all before may have
    /// made room for them.
    pub(crate) fn process_events(&mut self, now: Instant) {
        while let Some(event) = self.primary.poll_event(now) {
            self.on_primary_event(event);
        }
        self.events.extend(self.streams.take_delivered().into_iter().map(Event::Finished));
        self.look_for_validation();
        self.process_rate_signals(now);
        self.watch_primary(now, Duration::ZERO);
        self.tune_windows(now);
        self.expire_early_keys(now);
        self.await_readers(now);
        self.close_on_fault(now);
        self.wake_writers();
    }

    /// Handles an RLP datagram that the system received at `arrived`; call [`Self::process_events`] after the last of
    /// several. Returns whether it was authentic and new.
    #[doc(hidden)]
    pub fn handle_rlp(&mut self, now: Instant, arrived: Instant, mut datagram: BytesMut) -> bool {
        let opened = match &mut self.overlay {
            Some(overlay) if self.life.lost.is_none() && self.life.fault.is_none() => {
                overlay.openers.open(&mut datagram)
            }
            _ => Err(OpenError::NotForUs),
        };
        let (opened, by_early_keys) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.telemetry.received.rlp_discarded += 1;
                self.telemetry.trace.emit(now, || QlogEvent::PacketDiscarded);
                if error.is_peer_fault() {
                    self.life.fault = Some(PeerMisbehaved::Malformed("rlp header"));
                }
                return false;
            }
        };
        self.telemetry.received.rlp_datagrams += 1;
        self.note_bytes(arrived, datagram.len());
        let (mut noted, mut reported) = (false, false);
        let payload = datagram.freeze().slice(opened.payload);
        for frame in Frames::new(&payload) {
            match frame {
                Ok(Frame::Padding) => {}
                // Other frames answer something, and an early sender has received nothing.
                Ok(frame) if by_early_keys && !matches!(frame, Frame::Data(_)) => {
                    self.life.fault = Some(PeerMisbehaved::Malformed("early rlp frame"));
                }
                Ok(Frame::Solicit) => self.on_solicit(now),
                Ok(Frame::Complete(stream)) => self.on_complete(stream),
                // Behind the SACKs, which prove them.
                Ok(Frame::Arrival(_)) => reported = true,
                Ok(Frame::Probe) => self.on_order_probe(opened.packet_number),
                Ok(Frame::Order(order)) => self.on_order(now, order),
                Ok(Frame::Data(data)) => {
                    if !std::mem::replace(&mut noted, true) {
                        self.note_arrival(arrived, opened.packet_number);
                    }
                    self.on_rlp_data(now, opened.level, &data, &payload);
                }
                Ok(Frame::Sack(sack)) => {
                    self.telemetry.sent.sacks += 1;
                    if let Ok(stream) = VarInt::from_u64(sack.stream) {
                        self.telemetry.trace.emit(now, || QlogEvent::SackReceived {
                            level: opened.level,
                            stream,
                            spans: sack.spans().map(|(span, _)| span).collect(),
                        });
                        self.on_sack(arrived, stream.into(), sack.spans());
                        self.evaluate_samples(now);
                    }
                }
                Err(_) => self.life.fault = Some(PeerMisbehaved::Malformed("rlp frame")),
            }
            if self.life.fault.is_some() {
                break;
            }
        }
        if reported {
            self.on_arrivals(arrived, &payload);
        }
        self.reopen_lost();
        true
    }

    /// A deadline of [`Self::poll_timeout`] has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let speaks_rlp = self.rlp().map(|rlp| rlp.on_timeout(now)).is_some();
        self.addresses.on_timeout(now, &self.primary, speaks_rlp);
        self.primary.handle_timeout(now);
        self.ack_frequency.on_chance();
        self.look_for_readers(now);
        self.process_events(now);
    }

    // --- commands ---

    /// Opens a stream, or `None` while the peer's limit is reached ([`Event::Available`] follows). Before the
    /// handshake is complete, clients need [`Self::begin_early`] first.
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        if !self.may_open() || self.life.lost.is_some() {
            return None;
        }
        let id = self.primary.open(dir)?;
        self.streams.on_opened_here(id);
        self.add_send(id);
        if dir == Dir::Bi {
            self.add_recv(id);
        }
        Some(id)
    }

    /// The next stream the peer opened.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let id = self.streams.accept(dir)?;
        // There is room for one more.
        if self.life.lost.is_none() {
            self.on_peer_opened(dir);
        }
        Some(id)
    }

    /// Accepts bytes for sending from the front of `data`; returns how many.
    ///
    /// # Errors
    /// [`WriteError::Blocked`] while the send window is full, [`WriteError::Stopped`] once the peer has stopped
    /// reading, [`WriteError::ClosedStream`] after [`Self::finish`] or [`Self::reset`].
    pub fn write(&mut self, id: StreamId, data: Bytes) -> Result<usize, WriteError> {
        self.write_chunks(id, &mut [data])
    }

    /// Like [`Self::write`] for several pieces; accepted bytes are removed from them.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_chunks(&mut self, id: StreamId, chunks: &mut [Bytes]) -> Result<usize, WriteError> {
        let stream = self.streams.send(id).ok_or(WriteError::ClosedStream)?;
        stream.writable()?;
        let send_room = self.send_room();
        let room = send_room.of_stream(stream);
        if room == 0 && chunks.iter().any(|chunk| !chunk.is_empty()) {
            self.streams.block_writer(id, &send_room);
            return Err(WriteError::Blocked);
        }
        self.note_busy_period();
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let taken = self.streams.with_send(id, |stream| stream.write(chunks, room));
        self.streams.queue_for_rlp(id);
        taken.ok_or(WriteError::ClosedStream)
    }

    /// Checks that [`Self::write`] would accept bytes if the send window had room.
    ///
    /// # Errors
    /// [`WriteError::Stopped`] and [`WriteError::ClosedStream`], as [`Self::write`].
    pub fn writable(&self, id: StreamId) -> Result<(), WriteError> {
        self.streams.send(id).ok_or(WriteError::ClosedStream)?.writable()
    }

    /// Ends the stream: after the bytes written so far the peer reads the end.
    ///
    /// # Errors
    /// [`FinishError::Stopped`] if the peer has stopped reading, [`FinishError::ClosedStream`] if the stream was
    /// finished or reset before.
    pub fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        let finished = self.streams.with_send(id, SendStream::finish).ok_or(FinishError::ClosedStream)?;
        // Its last bytes may have left without the end.
        self.streams.queue_for_rlp(id);
        finished
    }

    /// Drops the bytes that are not yet delivered and reports `code` to the peer.
    ///
    /// # Errors
    /// [`ClosedStream`] if all bytes were delivered or the stream was reset before.
    pub fn reset(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        self.sending(id)?;
        let first = self.streams.with_send(id, SendStream::reset).ok_or(ClosedStream)?;
        if first {
            self.primary.reset(id, code);
            self.report_reset(id);
        }
        self.remove_send(id);
        self.wake_writers();
        Ok(())
    }

    /// The application will ask nothing more about a stream that it has finished: if the peer stops it, it is forgotten.
    /// Without this call it stays, with the peer's code, until [`Self::reset`].
    pub fn release(&mut self, id: StreamId) {
        self.streams.with_send(id, |stream| stream.released = true);
    }

    /// The code with which the peer stopped reading; `None` while it still reads.
    ///
    /// # Errors
    /// [`ClosedStream`] once all bytes were delivered or the stream was reset.
    pub fn stopped(&self, id: StreamId) -> Result<Option<VarInt>, ClosedStream> {
        self.sending(id).map(|stream| stream.stopped)
    }

    /// Both loops send streams with a higher priority first. Default: 0. Each step above 0, up to 8, may store 64 KiB more
    /// than the send window, so that its writes do not wait for bytes of lower priority.
    ///
    /// # Errors
    /// [`ClosedStream`] once all bytes were delivered or the stream was reset.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), ClosedStream> {
        self.sending(id)?;
        self.streams.set_priority(id, priority);
        let room = self.send_room();
        if self.streams.review_writer(id, &room) {
            self.events.push_back(Event::Writable(id));
        }
        Ok(())
    }

    /// The priority that [`Self::set_priority`] has set.
    ///
    /// # Errors
    /// As [`Self::set_priority`].
    pub fn priority(&self, id: StreamId) -> Result<i32, ClosedStream> {
        self.sending(id).map(|stream| stream.priority)
    }

    /// The next at most `max` bytes of a stream; `None` at its end. With `ordered` false, the bytes that have
    /// arrived, from any offset, each byte once.
    ///
    /// # Errors
    /// [`ReadError::Blocked`] until more bytes arrive, [`ReadError::Reset`] if the peer reset the stream,
    /// [`ReadError::ClosedStream`] after [`Self::stop`] or once the end or the reset was read,
    /// [`ReadError::IllegalOrderedRead`] if `ordered` and an unordered read has passed a gap before.
    pub fn read(&mut self, id: StreamId, max: usize, ordered: bool) -> Result<Option<Chunk>, ReadError> {
        let mut first = None;
        let more = self.read_each(id, max, 1, ordered, |chunk| first = Some(chunk));
        match first {
            Some(chunk) => Ok(Some(chunk)),
            None => more.map(|_| None),
        }
    }

    /// Like [`Self::read`] for several pieces: appends at most `count_max` of at most `bytes_max` bytes together, and
    /// returns whether there may be more; `false` at the end of the stream.
    ///
    /// # Errors
    /// As [`Self::read`], after the pieces before them were appended.
    pub fn read_chunks(
        &mut self,
        id: StreamId,
        bytes_max: usize,
        count_max: usize,
        ordered: bool,
        chunks: &mut Vec<Chunk>,
    ) -> Result<bool, ReadError> {
        self.read_each(id, bytes_max, count_max, ordered, |chunk| chunks.push(chunk))
    }

    /// See [`Self::read_chunks`].
    fn read_each(
        &mut self,
        id: StreamId,
        mut bytes_max: usize,
        mut count_max: usize,
        ordered: bool,
        mut take: impl FnMut(Chunk),
    ) -> Result<bool, ReadError> {
        if count_max == 0 {
            return Ok(true);
        }
        // A reader that was late, not slow, should not wait a round trip at the end of what is left.
        let left = self.memory.windows.receive() / 2;
        loop {
            let mut read = 0;
            let outcome = self.streams.with_recv(id, |stream| {
                let result = loop {
                    match stream.read(bytes_max, ordered) {
                        Ok(Some(chunk)) => {
                            let len = chunk.bytes.len();
                            take(chunk);
                            (bytes_max, count_max, read) = (bytes_max - len, count_max - 1, read + len);
                            if bytes_max == 0 || count_max == 0 {
                                break Ok(true);
                            }
                        }
                        Ok(None) => break Ok(false),
                        Err(error) => break Err(error),
                    }
                };
                (result, stream.backlogged, stream.end_unread(left))
            });
            let (result, backlogged, resumes) = outcome.ok_or(ReadError::ClosedStream)?;
            if read > 0 {
                self.on_consumed(id, read as u64);
            }
            if resumes {
                self.pause(id, false);
            }
            if backlogged {
                self.pull(id);
                self.schedule.needs_service = true;
                if read > 0 && result == Err(ReadError::Blocked) {
                    // What the primary had left may be next.
                    continue;
                }
            } else if read > 0 {
                // A peer that has used up its credit sends nothing that would have it raised later.
                self.schedule.needs_service |= self.offer_receive_window();
            }
            self.end_recv_if_over(id);
            return result;
        }
    }

    /// Stops reading: drops the bytes that were not read and reports `code` to the peer.
    ///
    /// # Errors
    /// [`ClosedStream`] if the stream was stopped or read to its end before.
    pub fn stop(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        let abandoned = self.streams.with_recv(id, |stream| {
            let (consumed, head_open) = (stream.consumed(), stream.is_head_open());
            stream.abandon();
            (stream.consumed() - consumed, head_open)
        });
        let (dropped, head_open) = abandoned.ok_or(ClosedStream)?;
        self.on_consumed(id, dropped);
        if head_open {
            self.primary.stop(id, code);
        }
        self.forget_recv(id);
        Ok(())
    }

    /// Whether a read would yield bytes, an end or a reset.
    pub fn is_readable(&self, id: StreamId) -> bool {
        self.streams.recv(id).is_some_and(|stream| stream.is_readable())
    }

    /// The code with which the peer reset a stream; `None` while it may still do so.
    ///
    /// # Errors
    /// [`ClosedStream`] once all bytes have arrived, or the stream was stopped or read to its end.
    pub fn reset_code(&self, id: StreamId) -> Result<Option<VarInt>, ClosedStream> {
        self.streams.recv(id).ok_or(ClosedStream)?.reset_code()
    }

    /// Closes the connection at once; bytes that are not yet delivered are lost. The peer receives `code` and
    /// `reason`.
    pub fn close(&mut self, now: Instant, code: VarInt, reason: Bytes) {
        self.primary.close(now, code, reason);
        self.process_events(now);
        if self.life.lost.is_none() {
            self.on_lost(ConnectionError::LocallyClosed, false);
        }
    }

    // --- outputs ---

    /// The events, oldest first.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front().or_else(|| self.streams.readable_sources.pop_front().map(Event::Writable))
    }

    /// When [`Self::handle_timeout`] wants to be called next.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let rlp = self.overlay.as_ref().and_then(|overlay| overlay.rlp.as_ref()).and_then(Rlp::timeout);
        let (look_at, ack_at) = (self.schedule.look_at, self.ack_frequency.deadline());
        [self.primary.poll_timeout(), self.addresses.ask_at(), rlp, look_at, ack_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// The datagrams with the level at which they leave.
    pub(crate) fn marked(&self, transmit: Transmit) -> Transmit {
        match self.config.congestion {
            Congestion::Background => Transmit { level: Level::MAX, ..transmit },
            _ => transmit,
        }
    }

    /// The primary's next datagrams, into the empty `buf`: at most `datagrams_max` of equal length.
    pub(crate) fn poll_primary(
        &mut self,
        now: Instant,
        datagrams_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.ack_frequency.on_chance();
        // The pacer can be bypassed only for one datagram at a time, see `primary::quinn::controller`.
        let datagrams_max = if self.config.paced { datagrams_max } else { 1 };
        if let Some(transmit) = self.write_solicit(buf).or_else(|| self.write_announcement(buf)) {
            return Some(transmit);
        }
        if self.addresses.datagrams_allowed(&self.primary, datagrams_max) > 0 && self.addresses.take_ping() {
            self.primary.probe_at_once();
        }
        loop {
            let datagrams_max = self.addresses.datagrams_allowed(&self.primary, datagrams_max);
            if datagrams_max == 0 {
                return None;
            }
            if let Some(transmit) = self.write_indicator(now, buf) {
                return Some(transmit);
            }
            self.primary.pace(now);
            self.feed();
            if let Some(transmit) = self.primary.poll_transmit(now, datagrams_max, buf) {
                self.move_rlp(now);
                self.note_departure(now, transmit.size);
                if let Some(rlp) = self.rlp() {
                    rlp.on_primary_sent(now, transmit.size as u64);
                }
                if !self.addresses.charge(&transmit) {
                    buf.clear();
                    continue;
                }
                return Some(transmit);
            }
            match self.primary.window().waiting {
                Waiting::Nothing => {
                    self.streams.on_primary_empty();
                    // Only FINs: a stream that accepts nothing does not need the primary any more.
                    if self.streams.wants_primary() && self.may_feed() {
                        continue;
                    }
                }
                // RLP may also send data that waits for the window.
                Waiting::ForWindow if self.overlay.is_some() => {
                    self.streams.queue_fed_for_rlp();
                }
                Waiting::ForWindow | Waiting::ForPacer => {}
            }
            self.note_app_limited();
            let waits = self.streams.is_any_fed() || self.streams.wants_primary();
            self.primary.rest(waits || self.primary.window().waiting == Waiting::ForPacer);
            self.wake_writers();
            return None;
        }
    }

    // --- getters ---

    /// Whether both sides use rc3; known from [`Event::HandshakeDataReady`] on.
    pub fn is_rc3(&self) -> bool {
        self.overlay.is_some()
    }

    /// The application's own ALPN protocol and the server name, once known.
    pub fn handshake_data(&self) -> Option<HandshakeData> {
        let mut data = self.primary.handshake_data()?;
        data.protocol = data.protocol.and_then(|name| alpn::parse(&name).1.map(<[u8]>::to_vec));
        Some(data)
    }

    /// The peer's certificates as rustls gives them, once known.
    pub fn peer_identity(&self) -> Option<Box<dyn std::any::Any>> {
        self.primary.crypto_session().peer_identity()
    }

    /// Keying material from the TLS exporter (RFC 8446 §7.5); `None` before the handshake allows it.
    pub fn export_keying_material(&self, out: &mut [u8], label: &[u8], context: &[u8]) -> Option<()> {
        self.primary.crypto_session().export_keying_material(out, label, context).ok()
    }

    /// Client or server.
    pub fn side(&self) -> Side {
        self.primary.side()
    }

    /// Whether the handshake is still going on.
    pub fn is_handshaking(&self) -> bool {
        self.primary.is_handshaking()
    }

    /// Why the connection ended, if it has.
    pub fn lost(&self) -> Option<&ConnectionError> {
        self.life.lost.as_ref()
    }

    /// The smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.primary.rtt()
    }

    /// The smallest round-trip time seen on the path.
    pub fn min_rtt(&self) -> Duration {
        self.primary.min_rtt()
    }

    /// The numbers of the primary's congestion controller now. Its later changes do not show in the result.
    pub fn congestion_state(&self) -> Box<dyn Controller> {
        self.primary.congestion_state()
    }

    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.primary.addresses().0
    }

    /// The local address on the path, if known.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.primary.addresses().1
    }

    /// Counters of both loops.
    pub fn stats(&self) -> ConnectionStats {
        let rlp = self.overlay.as_ref().and_then(|overlay| overlay.rlp.as_ref());
        let watch = rlp.and_then(|rlp| rlp.watch.as_ref());
        let held = self.streams.received.all;
        let sent = SentStats {
            credit_bytes: self.overlay.as_ref().map_or(0, |overlay| overlay.send_credit.left()),
            ladder_packets: rlp.map_or(0, |rlp| rlp.sent),
            overhead_bytes: self.streams.sending.overhead,
            ..self.telemetry.sent
        };
        let received =
            ReceivedStats { buffered_bytes: held.bytes, held_bytes: held.total(), ..self.telemetry.received };
        let quic = self.primary.stats();
        ConnectionStats {
            udp_tx: quic.udp_tx,
            udp_rx: quic.udp_rx,
            frame_tx: quic.frame_tx,
            frame_rx: quic.frame_rx,
            path: quic.path,
            silent_since: self.primary.silent_since(),
            in_flight: self.primary.window().in_flight,
            rc3: self.is_rc3(),
            guard: watch.map(|watch| watch.guard.stats()),
            clock: watch.map(|watch| watch.clock.stats()),
            kickass: self.primary.kickass(),
            sent,
            received,
        }
    }

    /// The ids RLP datagrams for this connection may carry, once there are keys.
    pub(crate) fn receiver_ids(&self) -> impl Iterator<Item = ReceiverId> + '_ {
        self.overlay.iter().flat_map(|overlay| overlay.openers.ids())
    }

    /// Changes of these ids since the last call.
    pub(crate) fn take_id_change(&mut self) -> IdChange {
        self.overlay.as_mut().map(|overlay| overlay.openers.take_id_change()).unwrap_or_default()
    }

    /// Numbers of paths for which the endpoint may choose the receiver id; each once. None while there is no control
    /// stream to report them on.
    pub(crate) fn take_unchosen_ids(&mut self) -> Range<u64> {
        match &mut self.overlay {
            Some(overlay) if overlay.control.is_some() && self.life.lost.is_none() => {
                overlay.openers.take_unchosen_ids()
            }
            _ => 0..0,
        }
    }

    /// The endpoint has chosen the id of the path with this number; the peer is informed. `false`: it is not needed.
    pub(crate) fn choose_id(&mut self, number: u64, id: ReceiverId) -> bool {
        let chosen = self.overlay.as_mut().is_some_and(|overlay| overlay.openers.choose_id(number, id));
        if chosen {
            self.send_control(ControlFrame::ReceiverId { number, id });
        }
        chosen
    }

    // --- the rest ---

    /// A stream that, as far as the application knows, is neither delivered nor reset.
    fn sending(&self, id: StreamId) -> Result<&SendStream, ClosedStream> {
        self.streams.send(id).filter(|stream| !stream.is_announced()).ok_or(ClosedStream)
    }

    fn rlp(&mut self) -> Option<&mut Rlp> {
        self.overlay.as_mut()?.rlp.as_mut()
    }

    fn watch(&mut self) -> Option<&mut PathLaws> {
        self.rlp()?.watch.as_mut()
    }

    fn send_room(&self) -> SendRoom {
        self.memory.send_room(&self.streams, self.primary.min_rtt())
    }

    /// Reports writers that have room again.
    fn wake_writers(&mut self) {
        if self.streams.is_any_blocked() {
            let room = self.send_room();
            self.events.extend(self.streams.take_unblocked(&room).into_iter().map(Event::Writable));
        }
    }

    /// Removes a stream's sending side. A writer that waits for room on it finds that out.
    fn remove_send(&mut self, id: StreamId) -> Option<Box<SendStream>> {
        let stream = self.streams.remove_send(id);
        if self.streams.blocked.remove(id) {
            self.events.push_back(Event::Writable(id));
        }
        stream
    }

    /// Adapts the windows to the traffic. Call it after every input and command.
    fn tune_windows(&mut self, now: Instant) {
        let rtt = self.primary.rtt();
        if let Some(bytes) = self.memory.windows.tune_receive(now, rtt) {
            self.telemetry.trace.emit(now, || QlogEvent::WindowGrown { window: "receive", bytes });
        }
        if let Some(bytes) = self.memory.windows.tune_send(now, rtt) {
            tracing::debug!(remote = %self.remote_address(), bytes, "send window grows");
            self.telemetry.trace.emit(now, || QlogEvent::WindowGrown { window: "send", bytes });
            self.primary.set_send_window(bytes);
            self.wake_writers();
        }
        self.offer_receive_window();
        let Some(overlay) = &mut self.overlay else { return };
        let rlp_part = self.memory.windows.rlp_part();
        if let Some(bytes) = overlay.recv_credit.tune(now, rtt, rlp_part) {
            self.telemetry.trace.emit(now, || QlogEvent::WindowGrown { window: "rlp", bytes });
            self.grant();
        }
    }

    /// Lets the primary offer the peer what there is room for; returns whether that has changed.
    fn offer_receive_window(&mut self) -> bool {
        let Some(bytes) = self.memory.next_offer(&self.streams) else { return false };
        tracing::debug!(remote = %self.remote_address(), bytes, "receive window changes");
        self.primary.set_receive_window(bytes);
        true
    }

    fn close_on_fault(&mut self, now: Instant) {
        let Some(fault) = self.life.fault.take() else { return };
        if self.life.lost.is_some() {
            return;
        }
        tracing::debug!(remote = %self.remote_address(), %fault, "peer misbehaved");
        self.primary.close(now, fault.code(), Bytes::from(fault.to_string()));
        let mut error = TransportError::from(fault.codes().1);
        error.reason = fault.to_string();
        self.on_lost(ConnectionError::TransportError(error), true);
        if fault == PeerMisbehaved::OutOfOrder {
            // These can never be put in order.
            self.streams.drop_pending_records();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side())
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}
