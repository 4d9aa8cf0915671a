//! Receivers that acknowledge every other byte.

use bytes::BytesMut;
use rc3_core::{RlpMode, VarInt, units::Span, wire::sack};

use crate::{
    resident::{MIB, Meter, isolated},
    support::{RTT, Tap, connected, keys, seal, send, world_with},
};

/// Bytes of each stream, of which every other one is acknowledged.
const BYTES: u64 = 40_000;
const SPANS_PER_DATAGRAM: u64 = 500;

#[test]
fn sacks_of_every_other_byte_of_many_streams_cost_few_mebibytes() {
    isolated("sending::sacks_of_every_other_byte_of_many_streams_cost_few_mebibytes", || {
        let mut pair = world_with(|config| {
            config.rlp(RlpMode::Trust);
        });
        let (client, server) = connected(&mut pair);
        let mut picky = keys(&pair, server, false);
        // The honest receiver stays silent: its primary acknowledges nothing.
        let tap = Tap::default();
        tap.lock().lose_all = true;
        pair.server.set_tamper(tap.tamper());
        let streams: Vec<_> = (0..100).map(|_| send(&mut pair, client, BYTES)).collect();
        pair.drive_until(RTT * 12, |_| false);
        let now = pair.now;
        let mut sent = 0;
        let meter = Meter::start();
        for id in streams {
            for from in (0..BYTES).step_by(2 * SPANS_PER_DATAGRAM as usize) {
                let spans = (0..SPANS_PER_DATAGRAM).map(|nth| from + 2 * nth);
                let spans: Vec<_> = spans.map(|at| Span::new(at, at + 1)).collect();
                let datagram = seal(&mut picky, |buf| {
                    sack::emit(VarInt::from(id).into_inner(), spans, 1400, buf);
                });
                pair.client.with(client, |c| c.handle_rlp(now, BytesMut::from(&datagram[..])));
                sent += 1;
            }
        }
        let grown = meter.stop("SACKs of every other byte", sent);
        let connection = pair.client.connection(client).unwrap();
        assert!(connection.lost().is_none());
        let stats = connection.stats().sent;
        let believed: u64 = stats.levels.iter().map(|level| level.delivered_bytes).sum();
        println!("{believed} bytes believed, {} bytes counted", stats.overhead_bytes);
        assert!(grown < 8 * MIB && believed > 10_000);
    });
}
