//! Received SACKs.

use std::time::Instant;

use super::Connection;
use crate::{
    error::PeerMisbehaved,
    machines::overlay::Overlay,
    quic::{StreamId, VarInt},
    structures::held::SACK_COST,
    units::{Receipt, Span},
};

impl Connection {
    /// A SACK: the peer has these spans, and proves it.
    pub(super) fn on_sack(
        &mut self,
        now: Instant,
        id: StreamId,
        spans: impl Iterator<Item = (Span, Receipt)> + Clone,
    ) {
        let number = VarInt::from(id).into_inner();
        let is_proven = self.rlp().is_some_and(|rlp| {
            spans.clone().all(|(span, receipt)| rlp.receipts.receipt(number, span) == receipt)
        });
        if !is_proven {
            self.life.fault = Some(PeerMisbehaved::Receipt);
            return;
        }
        let mut room = self.memory.overhead_room(&self.streams);
        let Self { streams, telemetry, overlay: Some(Overlay { rlp: Some(rlp), .. }), .. } = self else {
            return;
        };
        let mut delivered = 0;
        let has_source = streams.with_send(id, |stream| {
            let mut newly = 0;
            for (span, _) in spans {
                if let Some(watch) = &mut rlp.watch {
                    watch.guard.on_sacked(now, id, span);
                }
                let buffer = &mut stream.buffer;
                newly += stream.ledger.delivered(span, room >= SACK_COST, |span, level| {
                    telemetry.sent.levels[level.index()].delivered_bytes += span.len();
                    buffer.release(span);
                    room = room.saturating_sub(SACK_COST);
                });
            }
            stream.on_rlp_delivered(newly);
            delivered = newly;
            stream.has_source()
        });
        if let Some(watch) = &mut rlp.watch {
            watch.clock.proof.on_delivered(delivered);
        }
        // RLP may send more, in proportion to what arrives.
        if has_source == Some(true) {
            streams.queue_for_rlp(id);
        }
    }
}
