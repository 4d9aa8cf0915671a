//! Writes RLP datagrams: SACKs of what the peer's RLP loop has brought, and data of streams.

use std::time::{Duration, Instant};

use super::{Overlay, SackDue};
use crate::{
    laws::{
        clock::Departure,
        primary_window::{Waiting, Window},
    },
    machines::{
        rlp::Rlp,
        stream::{recv::RecvStream, set::Streams},
        telemetry::Telemetry,
    },
    quic::{StreamId, VarInt},
    seams::{
        keys::Sealer,
        qlog::{QlogEvent, Trace},
    },
    transmit::BATCH_BYTES_MAX,
    units::{Level, Receipt, Span},
    wire::{
        frame::{DataHeader, complete_len, emit_complete},
        sack,
    },
};

/// Segments the primary may hold without having sent them; RLP repeats that much where the loops meet.
const OVERLAP_PACKETS: u64 = 2;

/// More than any round trip: before the first sample the primary has only a guess.
const RTT_UNKNOWN: Duration = Duration::from_secs(3600);

/// Content of one RLP packet.
struct RlpPacket {
    header: DataHeader,
    span: Span,
}

impl RlpPacket {
    /// The length of its datagram: UDP payload.
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
        (None, true) => sack::emit(number, stream.receipts.select(), budget_left, buf),
        (from, _) => sack::emit(number, stream.receipts.iter_from(from.unwrap_or(0)), budget_left, buf),
    };
    // Behind the SACK, whose receipts it needs.
    let shown = count > 0 || stream.receipts.iter().next().is_none();
    if complete && shown && reserved <= budget {
        emit_complete(number, buf);
    }
    count
}

/// The highest bytes of a span, as packets in sending order: ascending, which suits the receiver (RC3 §4.2.3), but a short
/// datagram last, as segmentation offload requires.
fn in_packets(
    stream: u64,
    span: Span,
    final_size: Option<u64>,
    payload_max: usize,
    packets_max: u64,
) -> Vec<RlpPacket> {
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
    let short_last = packets.last().is_some_and(|last| last.datagram_len() < packets[0].datagram_len());
    let full = if short_last { packets.len() - 1 } else { packets.len() };
    packets[..full].sort_unstable_by_key(|packet| packet.span.start);
    packets
}

/// What a batch of data depends on.
#[derive(Debug)]
pub(crate) struct DataTurn {
    pub(crate) window: Window,
    /// The least round-trip time of the path; `None` before the handshake is complete.
    pub(crate) rtt_min: Option<Duration>,
    pub(crate) datagrams_max: usize,
}

/// A batch of data that was written.
#[derive(Debug)]
pub(crate) struct DataBatch {
    pub(crate) level: Level,
    /// The length of each datagram except the last: UDP payload.
    pub(crate) segment_size: usize,
    /// Bytes of the stream.
    pub(crate) bytes: u64,
}

impl Overlay {
    /// One datagram with as many due SACKs as fit, at the best of their levels.
    pub(crate) fn write_sack(
        &mut self,
        now: Instant,
        mtu: u16,
        streams: &mut Streams,
        telemetry: &mut Telemetry,
        buf: &mut Vec<u8>,
    ) -> Option<Level> {
        let level = self.sacks.values().map(|due| due.level).min()?;
        let seal = &mut self.rlp.as_mut()?.seal;
        let sealing = seal.begin(level, buf);
        let frames_start = buf.len();
        let payload_max = usize::from(mtu).saturating_sub(Sealer::OVERHEAD);
        for arrival in self.arrivals.take_reports() {
            arrival.emit(buf);
        }
        if let Some(order) = self.arrivals.take_order() {
            order.emit(buf);
        }
        let payload_start = buf.len();
        while let Some((&id, due)) = self.sacks.iter_mut().next() {
            let budget = payload_max.saturating_sub(buf.len() - frames_start);
            // The application does not know a stream that only RLP has brought before the primary opens it.
            let opened = id.index() < streams.known(id);
            let resends = self.arrivals.are_wanted();
            let before = buf.len();
            let spans =
                streams.recv(id).map(|stream| write_receipts(id, stream, *due, resends, opened, budget, buf));
            match spans {
                // No room left: in the next datagram.
                Some(0) if buf.len() == before && buf.len() > payload_start => break,
                // Nothing beyond the head, or the stream has ended.
                Some(0) | None => {}
                Some(count) => {
                    telemetry.received.sacks += 1;
                    telemetry.trace.emit(now, || {
                        let from = due.from.unwrap_or(0);
                        let spans = streams.recv(id).map(|stream| {
                            stream.receipts.iter_from(from).map(|(span, _)| span).take(count).collect()
                        });
                        QlogEvent::SackSent { level, stream: id, spans: spans.unwrap_or_default() }
                    });
                    // Spans without room in this SACK go into the next datagram.
                    let rest = due.from.zip(streams.recv(id));
                    let rest = rest.and_then(|(from, stream)| stream.receipts.iter_from(from).nth(count));
                    due.from = rest.map(|(span, _)| span.start);
                    if due.from.is_some() {
                        break;
                    }
                }
            }
            self.sacks.remove(&id);
        }
        // Reports leave alone too: they are not taken twice.
        if buf.len() == frames_start {
            buf.clear();
            return None;
        }
        seal.finish(sealing, buf);
        Some(level)
    }

    /// Writes a batch of data packets of the next stream into the empty `buf`.
    pub(crate) fn write_data(
        &mut self,
        now: Instant,
        turn: &DataTurn,
        streams: &mut Streams,
        telemetry: &mut Telemetry,
        buf: &mut Vec<u8>,
    ) -> Option<DataBatch> {
        let mtu = usize::from(turn.window.mtu);
        let rtt_min = turn.rtt_min.unwrap_or(RTT_UNKNOWN);
        let mut allowance = None;
        while let Some(id) = streams.next_for_rlp() {
            let (level, packets_max) = match allowance {
                Some(allowance) => allowance,
                None => *allowance.insert(self.rlp.as_mut()?.allowance(now, &turn.window, rtt_min)?),
            };
            let batch_max = turn.datagrams_max.min(BATCH_BYTES_MAX / mtu).max(1) as u64;
            // Bytes handed to the primary last may wait there for a round trip.
            let overlap = match turn.window.waiting {
                Waiting::ForWindow => OVERLAP_PACKETS * mtu as u64,
                Waiting::Nothing | Waiting::ForPacer => 0,
            };
            let payload_max = mtu.saturating_sub(Sealer::OVERHEAD);
            let packets = self.cut(streams, id, payload_max, packets_max.min(batch_max), overlap);
            if packets.is_empty() {
                streams.pass_rlp();
                continue;
            }
            self.log_packets(now, id, level, &packets, &mut telemetry.trace);
            let departure = self.write_packets(streams, now, id, level, &packets, buf)?;
            // A SACK cannot acknowledge an end alone, and the delay of early data is unknown.
            let watched = turn.rtt_min.is_some() && !packets[0].span.is_empty();
            let byte = packets[packets.len() - 1].span.start;
            let guarded = watched.then_some((byte, turn.window.in_flight));
            self.rlp.as_mut()?.on_sent(now, departure, buf.len() as u64, guarded);
            let bytes = packets.iter().map(|packet| packet.span.len()).sum();
            let stats = &mut telemetry.sent.levels[level.index()];
            stats.packets += packets.len() as u64;
            stats.bytes += bytes;
            if turn.rtt_min.is_none() {
                telemetry.sent.early_bytes += bytes;
            }
            return Some(DataBatch { level, segment_size: packets[0].datagram_len(), bytes });
        }
        self.rlp.as_mut()?.watch.as_mut()?.clock.departures.end_run();
        None
    }

    /// The highest bytes of a stream that RLP may send, as packets in sending order.
    fn cut(
        &self,
        streams: &mut Streams,
        id: StreamId,
        payload_max: usize,
        packets_max: u64,
        overlap_max: u64,
    ) -> Vec<RlpPacket> {
        let Some(mut stream) = streams.send(id).filter(|stream| !stream.paused) else { return Vec::new() };
        let ceiling = stream.rlp_limit.min(stream.usage() + self.send_credit.left());
        if stream.wants_ceiling(ceiling) {
            streams.with_send(id, |stream| stream.expect_rlp(ceiling));
            let Some(changed) = streams.send(id) else { return Vec::new() };
            stream = changed;
        }
        let final_size = stream.final_size();
        let bytes_max = packets_max * payload_max as u64;
        // A stream whose source has not supplied bytes yet is queued again when they arrive.
        let Some(span) = stream.next_for_rlp(bytes_max, ceiling, overlap_max) else { return Vec::new() };
        in_packets(VarInt::from(id).into_inner(), span, final_size, payload_max, packets_max)
    }

    fn log_packets(
        &self,
        now: Instant,
        id: StreamId,
        level: Level,
        packets: &[RlpPacket],
        trace: &mut Trace,
    ) {
        let Some(rlp) = &self.rlp else { return };
        if let Some(old) = rlp.last_level().filter(|&old| old != level) {
            trace.emit(now, || QlogEvent::LevelChanged { old, new: level, packets: rlp.sent });
        }
        for packet in packets {
            let (span, datagram_len) = (packet.span, packet.datagram_len());
            trace.emit(now, || QlogEvent::PacketSent { level, stream: id, span, datagram_len });
        }
    }
    fn write_packets(
        &mut self,
        streams: &mut Streams,
        now: Instant,
        id: StreamId,
        level: Level,
        packets: &[RlpPacket],
        buf: &mut Vec<u8>,
    ) -> Option<Departure> {
        let Rlp { seal, receipts, .. } = self.rlp.as_mut()?;
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
        self.send_credit.on_usage(more.unwrap_or(0));
        let packet_span = packets.iter().map(|packet| packet.span.len()).max()?;
        Some(Departure { last, packets: packets.len() as u64, at: now, stream: id, span, packet_span })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets from 2^14 and 2^30 on take more bytes than those below.
    #[test]
    fn all_datagrams_of_a_batch_but_the_last_are_as_long_as_the_first() {
        const PAYLOAD: usize = 154;
        let places =
            (0..PAYLOAD as u64).flat_map(|above| (0..2 * PAYLOAD as u64).map(move |below| (below, above)));
        for (power, (below, above)) in
            [14, 30].into_iter().flat_map(|power| places.clone().map(move |place| (power, place)))
        {
            let span = Span::new((1_u64 << power) - below, (1 << power) + above);
            let packets = in_packets(2, span, None, PAYLOAD, 8);
            let lens: Vec<_> = packets.iter().map(RlpPacket::datagram_len).collect();
            let (last, others) = lens.split_last().expect("a packet");
            assert!(others.iter().all(|len| *len == lens[0]) && *last <= lens[0], "{span:?} {lens:?}");
        }
    }
}
