//! What the RLP side of a connection sends: SACKs first, then data from the tails of streams.

use std::time::{Duration, Instant};

use super::Connection;
use crate::{
    config::RlpMode,
    laws::{
        clock::{Departure, Loss},
        primary_window::{Waiting, Window},
    },
    machines::{
        overlay::{Overlay, SackDue},
        rlp::{Allowance, Rlp},
        stream::recv::RecvStream,
    },
    quic::{StreamId, VarInt},
    seams::{keys::Sealer, qlog::QlogEvent},
    transmit::{BATCH_BYTES_MAX, Transmit},
    units::{Level, Receipt, Span},
    wire::{
        frame::{DataHeader, complete_len, emit_complete},
        sack,
    },
};

/// Segments the primary may hold without having sent them; RLP repeats that much where the loops meet.
const OVERLAP_PACKETS: u64 = 2;

/// Lost bytes that RLP may send again before any of its bytes were acknowledged ...
const REOPENED_FREE: u64 = 4 << 20;

/// ... and for each acknowledged one. RLP loses most of its packets where the primary leaves little capacity.
const REOPENED_PER_DELIVERED: u64 = 4;

/// More than any round trip: before the first sample the primary has only a guess.
const RTT_UNKNOWN: Duration = Duration::from_secs(3600);

/// Content of one RLP packet.
struct RlpPacket {
    header: DataHeader,
    span: Span,
}

impl RlpPacket {
    fn datagram_len(&self) -> usize {
        // The span was cut to fit a datagram.
        Sealer::OVERHEAD + self.header.encoded_len() + self.span.len() as usize
    }
}

/// A SACK of the bytes that RLP has brought of a stream, and COMPLETE if the stream is complete; returns how many spans
/// fit into `budget` bytes. `resends`: the sender sends lost bytes again.
fn write_receipts(
    id: StreamId,
    stream: &RecvStream,
    due: SackDue,
    resends: bool,
    opened: bool,
    budget: usize,
    buf: &mut Vec<u8>,
) -> usize {
    let number = VarInt::from(id).into_inner();
    let complete = opened && stream.is_complete_early();
    let reserved = if complete { complete_len(number) } else { 0 };
    let budget_left = budget.saturating_sub(reserved);
    let count = match (due.from, resends) {
        (Some(from), _) => sack::emit(number, stream.sack_spans_from(from), budget_left, buf),
        (None, true) => sack::emit(number, stream.fresh_sack_spans(), budget_left, buf),
        (None, false) => sack::emit(number, stream.sack_spans(), budget_left, buf),
    };
    // Behind the SACK, whose receipts it needs.
    let shown = count > 0 || stream.sack_spans().next().is_none();
    if complete && shown && reserved <= budget {
        emit_complete(number, buf);
    }
    count
}

/// Whether a due SACK has more than the first `count` spans, and from where; they go into the next datagram.
fn has_more(stream: &RecvStream, due: &mut SackDue, count: usize) -> bool {
    let next = due.from.and_then(|from| stream.sack_spans_from(from).nth(count));
    due.from = next.map(|(span, _)| span.start);
    next.is_some()
}

impl Connection {
    /// Writes the RLP side's next datagrams into the empty `buf`: at most `datagrams_max` of equal length, all at one
    /// level. Call it when [`Self::poll_primary`] has returned `None`: the primary goes first.
    pub(crate) fn poll_rlp(
        &mut self,
        now: Instant,
        datagrams_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.lost.is_some() || self.rlp().is_none() || !self.is_proven() {
            return None;
        }
        if let Some(probe) = self.write_order_probe(now, buf) {
            return Some(probe);
        }
        let (level, segment_size) = match self.write_sack(now, buf) {
            Some(level) => (level, buf.len()),
            None => match self.write_data(now, datagrams_max, buf) {
                Some(written) => written,
                None => {
                    self.probe(now);
                    // Everything stored has been sent: the send window may have room.
                    self.tune_windows(now);
                    return None;
                }
            },
        };
        let (destination, source) = self.primary.addresses();
        Some(Transmit {
            destination,
            source,
            level,
            ecn: 0,
            size: buf.len(),
            segment_size: (buf.len() > segment_size).then_some(segment_size),
            dont_fragment: true,
        })
    }

    /// Whether [`Self::poll_rlp`] may have something to send now.
    pub(crate) fn wants_rlp(&self) -> bool {
        match &self.overlay {
            Some(Overlay { rlp: Some(rlp), sacks, .. }) if self.lost.is_none() && self.is_proven() => {
                let data = self.config.rlp != RlpMode::Off;
                !sacks.is_empty()
                    || rlp.wants_order_probe()
                    || (data && self.rlp_wake.is_none() && self.streams.next_for_rlp().is_some())
            }
            _ => false,
        }
    }

    /// One datagram with as many due SACKs as fit, at the best of their levels.
    fn write_sack(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Level> {
        let mtu = usize::from(self.primary.window().mtu);
        let Self { overlay: Some(overlay), streams, received, trace, .. } = self else { return None };
        let level = overlay.sacks.values().map(|due| due.level).min()?;
        let rlp = overlay.rlp.as_mut()?;
        let seal = rlp.seal();
        let sealing = seal.begin(level, buf);
        let frames_start = buf.len();
        let payload_max = mtu.saturating_sub(Sealer::OVERHEAD);
        for arrival in overlay.arrivals.take_reports() {
            arrival.emit(buf);
        }
        if let Some(order) = overlay.arrivals.take_order() {
            order.emit(buf);
        }
        let payload_start = buf.len();
        while let Some((&id, due)) = overlay.sacks.iter_mut().next() {
            let budget = payload_max.saturating_sub(buf.len() - frames_start);
            // The application does not know a stream that only RLP has brought before the primary opens it.
            let opened = id.index() < streams.known(id);
            let resends = overlay.arrivals.are_wanted();
            let before = buf.len();
            let spans =
                streams.recv(id).map(|stream| write_receipts(id, stream, *due, resends, opened, budget, buf));
            match spans {
                // No room left: in the next datagram.
                Some(0) if buf.len() == before && buf.len() > payload_start => break,
                // Nothing beyond the head, or the stream has ended.
                Some(0) | None => {}
                Some(count) => {
                    received.sacks += 1;
                    trace.emit(now, || {
                        let from = due.from.unwrap_or(0);
                        let spans = streams.recv(id).map(|stream| {
                            stream.sack_spans_from(from).map(|(span, _)| span).take(count).collect()
                        });
                        QlogEvent::SackSent { level, stream: id, spans: spans.unwrap_or_default() }
                    });
                    if streams.recv(id).is_some_and(|stream| has_more(stream, due, count)) {
                        break;
                    }
                }
            }
            overlay.sacks.remove(&id);
        }
        if buf.len() == payload_start {
            buf.clear();
            return None;
        }
        seal.finish(sealing, buf);
        Some(level)
    }

    /// A batch of data packets of the next stream; returns the level and the length of a segment.
    fn write_data(
        &mut self,
        now: Instant,
        datagrams_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<(Level, usize)> {
        if self.config.rlp == RlpMode::Off {
            return None;
        }
        let window = self.primary.window();
        let mtu = usize::from(window.mtu);
        while let Some(id) = self.streams.next_for_rlp() {
            let (level, packets_max) = match self.allowance(now, &window)? {
                Allowance::Send { level, packets } => (level, packets),
                Allowance::Wait(until) => {
                    self.rlp_wake = Some(until);
                    return None;
                }
                Allowance::Stop(_) => return None,
            };
            let batch_max = datagrams_max.min(BATCH_BYTES_MAX / mtu).max(1) as u64;
            // Bytes handed to the primary last may wait there for a round trip.
            let overlap = match window.waiting {
                Waiting::ForWindow => OVERLAP_PACKETS * mtu as u64,
                Waiting::Nothing | Waiting::ForPacer => 0,
            };
            let payload_max = mtu.saturating_sub(Sealer::OVERHEAD);
            let packets = self.cut(id, payload_max, packets_max.min(batch_max), overlap);
            if packets.is_empty() {
                self.streams.pass_rlp();
                continue;
            }
            self.log_packets(now, id, level, &packets);
            let last = packets[packets.len() - 1].span;
            let departure = self.write_packets(now, id, level, &packets, buf)?;
            let total = buf.len() as u64;
            let handshaking = self.primary.is_handshaking();
            let rlp = self.rlp()?;
            rlp.on_sent(now, departure, total);
            // A SACK cannot acknowledge an end alone, and the delay of early data is unknown.
            let watched = !handshaking && !packets[0].span.is_empty();
            if let Some(guard) = rlp.guard().filter(|_| watched) {
                guard.on_rlp_sent(now, id, last.start, total, window.in_flight);
            }
            let stats = &mut self.sent.levels[level.index()];
            stats.packets += packets.len() as u64;
            let bytes = packets.iter().map(|packet| packet.span.len()).sum::<u64>();
            stats.bytes += bytes;
            self.windows.sent += bytes;
            if handshaking {
                self.sent.early_bytes += bytes;
            }
            self.report_rlp_in_flight(now);
            return Some((level, packets[0].datagram_len()));
        }
        self.rlp()?.on_no_data();
        None
    }

    fn allowance(&mut self, now: Instant, window: &Window) -> Option<Allowance> {
        let rtt_min = if self.primary.is_handshaking() { RTT_UNKNOWN } else { self.primary.min_rtt() };
        Some(self.rlp()?.allowance(now, window, rtt_min))
    }

    fn log_packets(&mut self, now: Instant, id: StreamId, level: Level, packets: &[RlpPacket]) {
        let Self { overlay: Some(Overlay { rlp: Some(rlp), .. }), trace, .. } = self else { return };
        if let Some(old) = rlp.last_level().filter(|&old| old != level) {
            trace.emit(now, || QlogEvent::LevelChanged { old, new: level, packets: rlp.sent() });
        }
        for packet in packets {
            let (span, datagram_len) = (packet.span, packet.datagram_len());
            trace.emit(now, || QlogEvent::PacketSent { level, stream: id, span, datagram_len });
        }
    }

    /// The highest bytes of a stream that RLP may send, as packets in sending order: ascending, which suits the
    /// receiver (RC3 §4.2.3), but a short one last, as segmentation offload requires.
    fn cut(
        &mut self,
        id: StreamId,
        payload_max: usize,
        packets_max: u64,
        overlap_max: u64,
    ) -> Vec<RlpPacket> {
        let Some(overlay) = &self.overlay else { return Vec::new() };
        let Some(mut stream) = self.streams.send(id) else { return Vec::new() };
        let ceiling = stream.rlp_limit.min(stream.usage() + overlay.send_credit.left());
        if stream.wants_ceiling(ceiling) {
            self.streams.with_send(id, |stream| stream.expect_rlp(ceiling));
            let Some(changed) = self.streams.send(id) else { return Vec::new() };
            stream = changed;
        }
        let final_size = stream.final_size();
        let bytes_max = packets_max * payload_max as u64;
        // A stream whose source has not supplied bytes yet is queued again when they arrive.
        let Some(span) = stream.next_for_rlp(bytes_max, ceiling, overlap_max) else { return Vec::new() };
        let stream = VarInt::from(id).into_inner();
        let mut packets = Vec::new();
        let mut end = span.end;
        // Sealed with it.
        let receipt = Receipt::default();
        let header = |offset| DataHeader { stream, offset, final_size, explicit_len: None, receipt };
        let start_below = |end: u64, offset| {
            end.saturating_sub(payload_max.saturating_sub(header(offset).encoded_len()) as u64)
        };
        while end > span.start && (packets.len() as u64) < packets_max {
            // The header's length depends on the offset and the offset on the header's length. The second guess
            // is exact: two lengths change nowhere as near to each other as the headers differ.
            let start = start_below(end, start_below(end, end)).max(span.start);
            packets.push(RlpPacket { header: header(start), span: Span::new(start, end) });
            end = start;
        }
        if span.is_empty() {
            packets.push(RlpPacket { header: header(end), span });
        }
        let short_last = packets.last().is_some_and(|last| last.span.len() < packets[0].span.len());
        let full = if short_last { packets.len() - 1 } else { packets.len() };
        packets[..full].sort_unstable_by_key(|packet| packet.span.start);
        packets
    }

    fn write_packets(
        &mut self,
        now: Instant,
        id: StreamId,
        level: Level,
        packets: &[RlpPacket],
        buf: &mut Vec<u8>,
    ) -> Option<Departure> {
        let Self { overlay: Some(overlay), streams, .. } = self else { return None };
        let (seal, receipts) = overlay.rlp.as_mut().map(Rlp::sealing)?;
        let number = VarInt::from(id).into_inner();
        // There is no gap between them.
        let start = packets.iter().map(|packet| packet.span.start).min()?;
        let end = packets.iter().map(|packet| packet.span.end).max()?;
        let span = Span::new(start, end);
        let mut last = 0;
        let more = streams.with_send(id, |stream| {
            let usage = stream.usage();
            for packet in packets {
                let sealing = seal.begin(level, buf);
                DataHeader { receipt: receipts.receipt(number, packet.span), ..packet.header }.emit(buf);
                let before = buf.len();
                stream.buffer.copy_into(packet.span, buf);
                // Anything else would put bytes at wrong offsets.
                assert_eq!(
                    (buf.len() - before) as u64,
                    packet.span.len(),
                    "bytes of {:?} are gone",
                    packet.span
                );
                last = seal.finish(sealing, buf);
            }
            stream.on_rlp_sent(span, level);
            stream.usage() - usage
        });
        overlay.send_credit.on_usage(more.unwrap_or(0));
        let packet_span = packets.iter().map(|packet| packet.span.len()).max()?;
        Some(Departure { last, packets: packets.len() as u64, at: now, stream: id, span, packet_span })
    }

    /// RLP may send its lost bytes again, as long as enough of them arrive: a receiver without memory refuses them.
    pub(super) fn reopen_lost(&mut self) {
        let lost = self.rlp().map(Rlp::take_lost).unwrap_or_default();
        if lost.is_empty() {
            return;
        }
        let delivered: u64 = self.sent.levels.iter().map(|level| level.delivered_bytes).sum();
        let allowed = REOPENED_FREE + self.sent.primary_bytes + REOPENED_PER_DELIVERED * delivered;
        for Loss { stream: id, span } in lost {
            if self.sent.reopened_bytes > allowed {
                break;
            }
            let reopened = self.streams.with_send(id, |stream| stream.ledger.reopen(span)).unwrap_or(0);
            if reopened > 0 {
                self.sent.reopened_bytes += reopened;
                self.streams.queue_for_rlp(id);
                if let Some(rlp) = self.rlp() {
                    rlp.on_lost(reopened);
                }
            }
        }
    }
}
