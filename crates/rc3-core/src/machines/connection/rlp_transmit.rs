//! What the RLP side of a connection sends: SACKs first, then data from the tails of streams.

use std::time::Instant;

use super::Connection;
use crate::{
    config::RlpMode,
    laws::clock::Loss,
    machines::overlay::{Overlay, transmit::DataTurn},
    transmit::Transmit,
};

/// Lost bytes that RLP may send again before any of its bytes were acknowledged ...
const REOPENED_FREE: u64 = 4 << 20;

/// ... and for each acknowledged one. RLP loses most of its packets where the primary leaves little capacity.
const REOPENED_PER_DELIVERED: u64 = 4;

impl Connection {
    /// Writes the RLP side's next datagrams into the empty `buf`: at most `datagrams_max` of equal length, all at one
    /// level. Call it when [`Self::poll_primary`] has returned `None`: the primary goes first.
    pub(crate) fn poll_rlp(
        &mut self,
        now: Instant,
        datagrams_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.lost().is_some() || self.rlp().is_none() || !self.addresses.is_proven(&self.primary) {
            return None;
        }
        if let Some(probe) = self.write_order_probe(now, buf) {
            return Some(probe);
        }
        let window = self.primary.window();
        let Self { overlay, streams, telemetry, .. } = self;
        let overlay = overlay.as_mut()?;
        let (level, segment_size) = match overlay.write_sack(now, window.mtu, streams, telemetry, buf) {
            Some(level) => (level, buf.len()),
            None if self.config.rlp == RlpMode::Off => return self.rest_rlp(now),
            None => {
                let established = !self.primary.is_handshaking();
                let rtt_min = established.then(|| self.primary.min_rtt());
                let turn = DataTurn { window, rtt_min, datagrams_max };
                let Some(batch) = overlay.write_data(now, &turn, streams, telemetry, buf) else {
                    return self.rest_rlp(now);
                };
                self.memory.windows.on_sent(batch.bytes);
                self.report_rlp(now);
                (batch.level, batch.segment_size)
            }
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

    /// Nothing more can be sent by RLP now.
    fn rest_rlp(&mut self, now: Instant) -> Option<Transmit> {
        // Everything stored has been sent: the send window may have room.
        self.tune_windows(now);
        None
    }

    /// Whether [`Self::poll_rlp`] may have something to send now.
    pub(crate) fn wants_rlp(&self) -> bool {
        let Some(Overlay { rlp: Some(rlp), sacks, .. }) = &self.overlay else { return false };
        let data = self.config.rlp != RlpMode::Off && !rlp.waits() && self.streams.next_for_rlp().is_some();
        self.lost().is_none()
            && self.addresses.is_proven(&self.primary)
            && (!sacks.is_empty() || rlp.wants_order_probe() || data)
    }

    /// RLP may send its lost bytes again, as long as enough of them arrive: a receiver without memory refuses them.
    pub(super) fn reopen_lost(&mut self) {
        let lost = self.watch().map(|watch| watch.clock.departures.take_lost()).unwrap_or_default();
        if lost.is_empty() {
            return;
        }
        let delivered: u64 = self.telemetry.sent.levels.iter().map(|level| level.delivered_bytes).sum();
        let allowed = REOPENED_FREE + self.telemetry.sent.primary_bytes + REOPENED_PER_DELIVERED * delivered;
        for Loss { stream: id, span, packet_span } in lost {
            if self.telemetry.sent.reopened_bytes > allowed {
                break;
            }
            let reopened = self.streams.with_send(id, |stream| stream.ledger.reopen(span)).unwrap_or(0);
            if reopened > 0 {
                self.telemetry.sent.reopened_bytes += reopened;
                self.streams.queue_for_rlp(id);
                if let Some(watch) = self.watch() {
                    watch.clock.proof.on_lost(reopened.div_ceil(packet_span.max(1)));
                }
            }
        }
    }
}
