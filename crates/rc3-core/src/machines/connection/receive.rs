//! Receives data of both loops for the streams, credit for the RLP loop, and ends of streams.

use std::time::Instant;

use bytes::Bytes;

use super::Connection;
use crate::{
    datagram_meta::DatagramMeta,
    error::{ClosedStream, PeerMisbehaved},
    laws::ack_frequency::{AckFrequency, RTT_MIN},
    machines::stream::recv::RecvStream,
    quic::{Dir, StreamId, VarInt},
    seams::qlog::QlogEvent,
    structures::{ledger::ByteState, taken::ReadBytes},
    units::Level,
    wire::{
        arrival::Arrival,
        frame::{Data, Frame, Frames},
    },
};

impl Connection {
    pub(super) fn add_send(&mut self, id: StreamId) {
        let rlp_limit = self.overlay.as_ref().map_or(0, |overlay| overlay.send_credit.stream_initial);
        self.streams.insert_send(id, self.overlay.is_some(), rlp_limit);
    }

    pub(super) fn add_recv(&mut self, id: StreamId) {
        let granted = self.overlay.as_ref().map(|overlay| overlay.recv_credit.stream_window);
        self.streams.insert_recv(id, || RecvStream::new(granted.is_some(), granted.unwrap_or(0)));
    }

    /// A datagram of the primary arrived, of `len` bytes: its content is in a buffer of that length.
    pub(crate) fn on_primary_datagram(&mut self, meta: DatagramMeta, now: Instant, len: usize) {
        self.arrived_at(meta.local_ip);
        self.memory.on_datagram(len);
        self.note_bytes(meta.arrived_by(now), len);
        self.ack_frequency.on_packets(now, self.primary.stream_frames(), self.primary.min_rtt());
    }

    /// Whether what has arrived may wait for its acknowledgment, and there is nothing else to send.
    pub(crate) fn acks_may_wait(&self, now: Instant) -> bool {
        let has_data = self.streams.wants_primary() || self.streams.is_any_fed();
        // The papers compare with a TCP that acknowledges each packet or every second one.
        let may = !has_data && self.config.segment_size.is_none() && self.life.lost.is_none();
        may && self.ack_frequency.may_wait(now)
    }

    /// Its part in when the socket is read; `None`: packets have to be read at once.
    pub(crate) fn reading(&self) -> Option<&AckFrequency> {
        // Nobody knows the path before the handshake ends.
        let may = !self.is_handshaking() && self.config.segment_size.is_none();
        Some(&self.ack_frequency).filter(|_| may && self.primary.min_rtt() >= RTT_MIN)
    }

    /// A datagram of either loop arrived, of `len` bytes.
    pub(super) fn note_bytes(&mut self, arrived: Instant, len: usize) {
        if let Some(overlay) = &mut self.overlay {
            overlay.arrivals.on_bytes(arrived, len);
        }
    }

    /// RLP data arrived in the datagram with this number.
    pub(super) fn note_arrival(&mut self, arrived: Instant, packet_number: u64) {
        if let Some(overlay) = &mut self.overlay {
            overlay.arrivals.on_data(arrived, packet_number);
        }
    }

    /// The reports in a payload, once its SACKs have proved them.
    pub(super) fn on_arrivals(&mut self, now: Instant, payload: &[u8]) {
        let arrivals = Frames::new(payload).filter_map(|frame| match frame {
            Ok(Frame::Arrival(arrival)) => Some(arrival),
            _ => None,
        });
        // They are in ascending order.
        let last = arrivals.clone().last().map(|arrival| arrival.packet_number);
        let newest = last.filter(|&number| self.is_proved(number));
        if let (Some(newest), Some(watch)) = (newest, self.watch()) {
            watch.clock.on_proved(newest);
        }
        for arrival in arrivals {
            if self.life.fault.is_none() {
                self.on_arrival(now, arrival);
            }
        }
    }

    /// Whether a SACK has proved that the RLP datagram with this number arrived.
    fn is_proved(&self, packet_number: u64) -> bool {
        let rlp = self.overlay.as_ref().and_then(|overlay| overlay.rlp.as_ref());
        let watch = rlp.and_then(|rlp| rlp.watch.as_ref());
        watch.and_then(|watch| watch.clock.departures.byte_of(packet_number)).is_some_and(|(id, offset)| {
            self.streams.send(id).is_none_or(|stream| {
                matches!(stream.ledger.state(offset), ByteState::Delivered | ByteState::Primary)
            })
        })
    }

    /// The peer's report about a local datagram.
    fn on_arrival(&mut self, now: Instant, arrival: Arrival) {
        let proved = self.is_proved(arrival.packet_number);
        if self.rlp().is_some_and(|rlp| !rlp.on_arrival(now, arrival, proved)) {
            self.life.fault = Some(PeerMisbehaved::Malformed("rlp arrival"));
        }
        self.report_rlp(now);
    }

    /// Takes a stream's data from the primary.
    pub(super) fn pull(&mut self, id: StreamId) {
        // The stream is known only from RLP data and not registered yet: reading it would end its count against the
        // peer's limit.
        if id.initiator() != self.primary.side() && id.index() >= self.streams.known(id) {
            return;
        }
        while self.pull_step(id) {}
        self.end_recv_if_over(id);
    }

    /// Takes some of it; returns whether there may be more.
    fn pull_step(&mut self, id: StreamId) -> bool {
        let Self { streams, primary, memory, .. } = self;
        let bounds = memory.pull_bounds(streams);
        let Some(pulled) = streams.pull(id, primary, bounds, memory.datagram_len_max) else { return false };
        if pulled.dropped > 0 {
            self.on_consumed(id, pulled.dropped);
        }
        let more = match pulled.result {
            Ok(taken) => {
                self.memory.windows.on_taken(taken.read);
                self.telemetry.received.primary_bytes += taken.new;
                self.telemetry.received.duplicate_bytes += taken.duplicate;
                // The peer repeats bytes that RLP has brought, so a SACK was lost. Or this was the last gap.
                let owes = taken.duplicate > 0 || (taken.read > 0 && pulled.complete_early);
                if let Some(overlay) = self.overlay.as_mut().filter(|_| owes) {
                    overlay.owe_sack(id, Level::FIRST);
                }
                taken.more
            }
            Err(fault) => {
                self.life.fault = Some(fault);
                false
            }
        };
        if self.memory.is_primary_hostile(&self.streams) {
            self.life.fault = Some(PeerMisbehaved::OutOfOrder);
        }
        self.offer_receive_window();
        more && self.life.fault.is_none()
    }

    /// Drops a stream that neither the application nor the primary needs any more.
    pub(super) fn end_recv_if_over(&mut self, id: StreamId) {
        if self.streams.recv(id).is_some_and(|stream| stream.is_over()) {
            self.forget_recv(id);
        }
    }

    pub(super) fn on_rlp_data(&mut self, now: Instant, level: Level, data: &Data, payload: &Bytes) {
        let Ok(id) = VarInt::from_u64(data.stream).map(StreamId::from) else { return };
        let result = self.take_rlp_data(id, data, payload);
        self.telemetry.trace.emit(now, || QlogEvent::PacketReceived {
            level,
            stream: id,
            offset: data.offset,
            taken: result.as_ref().ok().copied().flatten(),
        });
        match result {
            Ok(Some(taken)) => {
                let stats = &mut self.telemetry.received;
                stats.rlp_bytes[level.index()] += taken.new;
                stats.duplicate_bytes += taken.duplicate;
                stats.refused_bytes += taken.refused;
                if let Some(overlay) = &mut self.overlay {
                    overlay.owe_sack(id, level);
                }
                self.grant_whole(id);
                // Even without bytes it may bring the end.
                if taken.new > 0 || data.data.is_empty() {
                    self.note_readable(id);
                }
            }
            Ok(None) => self.telemetry.received.rlp_discarded += 1,
            Err(fault) => self.life.fault = Some(fault),
        }
    }

    /// `None`: the stream is closed.
    fn take_rlp_data(
        &mut self,
        id: StreamId,
        data: &Data,
        payload: &Bytes,
    ) -> Result<Option<ReadBytes>, PeerMisbehaved> {
        let Some(overlay) = &self.overlay else { return Ok(None) };
        let room = self.memory.rlp_limits(&self.streams, overlay.recv_credit.window_max);
        if self.streams.recv(id).is_none() {
            self.check_may_exist(id)?;
            if id.index() < self.streams.known(id) {
                return Ok(None);
            }
            // Ahead of the primary: the stream is accepted when the primary brings its first byte.
            self.add_recv(id);
        }
        let bytes = payload.slice(data.data.clone());
        let taken = self.streams.with_recv(id, |stream| {
            stream.on_rlp(data.offset, bytes, payload.len(), data.final_size, data.receipt, room)
        });
        taken.transpose()
    }

    /// Whether the peer may send RLP data on an unknown stream.
    fn check_may_exist(&self, id: StreamId) -> Result<(), PeerMisbehaved> {
        let ours = id.initiator() == self.primary.side();
        if (ours && id.dir() == Dir::Uni) || self.is_peer_control(id) {
            return Err(PeerMisbehaved::StreamDirection);
        }
        let known = self.streams.known(id);
        let limit = if ours { known } else { known + self.primary.max_concurrent_streams(id.dir()) };
        if id.index() < limit { Ok(()) } else { Err(PeerMisbehaved::StreamLimit) }
    }

    /// Bytes of a stream were read, or will never be.
    pub(super) fn on_consumed(&mut self, id: StreamId, bytes: u64) {
        let Some(overlay) = &mut self.overlay else { return };
        let Some(stream) = self.streams.recv_mut(id) else { return };
        if stream.counts_reads() {
            overlay.recv_credit.on_consumed(bytes);
        }
        if stream.wants_credit() {
            let consumed = stream.consumed();
            let grant = overlay.recv_credit.next_stream_grant(id, consumed, &mut stream.granted);
            if let Some(frame) = grant {
                self.send_control(frame);
            }
        }
        self.grant();
    }

    /// From now on the application reads this stream in any order, as its bytes arrive. RLP may then send any of them
    /// once the stream's size is known; the number of unread bytes stays bounded. Returns the offset up to which the
    /// stream has been read.
    ///
    /// # Errors
    /// [`ClosedStream`] if the stream was stopped or read to its end.
    pub fn read_out_of_order(&mut self, id: StreamId) -> Result<u64, ClosedStream> {
        let read_offset = self.streams.recv_mut(id).ok_or(ClosedStream)?.read_out_of_order();
        self.grant_whole(id);
        Ok(read_offset)
    }

    /// Grants RLP the whole of a stream that is read in any order: its bytes count as consumed before they arrive,
    /// because the distance between them costs no memory.
    fn grant_whole(&mut self, id: StreamId) {
        let Some(overlay) = &mut self.overlay else { return };
        let Some(stream) = self.streams.recv_mut(id) else { return };
        let consumed = stream.consumed();
        let Some(size) = stream.grant_whole() else { return };
        if !stream.usage_reported {
            overlay.recv_credit.on_consumed(size.saturating_sub(consumed));
        }
        if let Some(frame) = overlay.recv_credit.whole_stream_grant(id, size, &mut stream.granted) {
            self.send_control(frame);
        }
        self.grant();
    }

    /// Raises the connection's limit, if the change is worth a frame.
    pub(super) fn grant(&mut self) {
        if let Some(frame) = self.overlay.as_mut().and_then(|overlay| overlay.recv_credit.next_grant()) {
            self.send_control(frame);
        }
    }

    pub(super) fn forget_recv(&mut self, id: StreamId) {
        let Some(stream) = self.streams.remove_recv(id) else { return };
        let Some(overlay) = &mut self.overlay else { return };
        overlay.sacks.remove(&id);
        if stream.usage_reported {
            return;
        }
        match stream.final_size {
            // Unread bytes count as read.
            Some(size) if !stream.is_reset() => {
                overlay.recv_credit.on_consumed(size.saturating_sub(stream.counted()));
            }
            _ => overlay.recv_credit.on_ended_early(id, stream.counted()),
        }
        self.grant();
    }
}
