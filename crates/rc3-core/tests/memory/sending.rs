//! Receivers whose acknowledgments cost their sender most.

use std::collections::BTreeMap;

use bytes::BytesMut;
use rc3_core::{
    RlpMode,
    internals::wire::{Frame, Frames, sack},
    units::{Receipt, Span},
};

use crate::{
    resident::{MIB, Meter, isolated},
    support::{RTT, Tap, connected, keys, seal, send, world_with},
};

/// A receiver can only acknowledge whole datagrams, so it takes every other one.
#[test]
fn sacks_of_every_other_datagram_of_many_streams_cost_few_mebibytes() {
    const STREAMS: usize = 10;
    const BYTES: u64 = 2_000_000;
    isolated("sending::sacks_of_every_other_datagram_of_many_streams_cost_few_mebibytes", || {
        let mut pair = world_with(|config| {
            config.rlp(RlpMode::Trust);
        });
        let (client, server) = connected(&mut pair);
        let mut picky = keys(&pair, server, false);
        // The honest receiver stays silent: its primary acknowledges nothing.
        let (silence, tap) = (Tap::default(), Tap::default());
        silence.lock().lose_all = true;
        pair.server.set_tamper(silence.tamper());
        pair.client.set_tamper(tap.tamper());
        for _ in 0..STREAMS {
            send(&mut pair, client, BYTES);
        }
        pair.drive_until(RTT * 60, |_| false);
        let mut received: BTreeMap<u64, Vec<(Span, Receipt)>> = BTreeMap::new();
        for (_, mut datagram) in std::mem::take(&mut tap.lock().seen) {
            let Ok(opened) = picky.open.open(&mut datagram) else { continue };
            for frame in Frames::new(&datagram[opened.payload]) {
                if let Ok(Frame::Data(data)) = frame {
                    received.entry(data.stream).or_default().push((data.span(), data.receipt));
                }
            }
        }
        let now = pair.now;
        let mut sent = 0;
        let meter = Meter::start();
        for (stream, mut datagrams) in received {
            datagrams.sort_unstable_by_key(|(span, _)| span.start);
            let every_other: Vec<_> = datagrams.into_iter().step_by(2).collect();
            for some in every_other.chunks(100) {
                let datagram = seal(&mut picky, |buf| {
                    sack::emit(stream, some.iter().copied(), 1400, buf);
                });
                pair.client.with(client, |c| c.handle_rlp(now, now, BytesMut::from(&datagram[..])));
                sent += 1;
            }
        }
        let grown = meter.stop("SACKs of every other datagram", sent);
        let connection = pair.client.connection(client).unwrap();
        assert!(connection.lost().is_none());
        let stats = connection.stats().sent;
        let believed: u64 = stats.levels.iter().map(|level| level.delivered_bytes).sum();
        println!("{believed} bytes accepted, {} bytes counted", stats.overhead_bytes);
        assert!(grown < 8 * MIB && believed > BYTES);
    });
}
