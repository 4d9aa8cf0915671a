//! When the sender learns that all of a stream has arrived: a round trip after the last byte has left, without waiting
//! for the primary's window and the acknowledgment of the FIN.

use std::time::{Duration, Instant};

use rc3_core::{
    ClosedStream, ConnectionHandle, ConnectionStats, Dir, Event, ReadError, RlpMode, StreamId,
    TransportConfig, units::Rate,
};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const MTU: u16 = 1472;
const RTT: Duration = Duration::from_millis(40);
const MBITS: u64 = 1000;

fn config(change: impl Fn(&mut TransportConfig)) -> PairConfig {
    let rate = Rate::from_bits_per_second(MBITS * 1_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    for side in [&mut config.client, &mut config.server] {
        side.rlp(RlpMode::Trust).nic_rate(rate).initial_mtu(MTU).mtu_discovery(false).paced(false);
        side.initial_window(Some(4 * u64::from(MTU) + 1));
        change(side);
    }
    config
}

/// One stream from client to server: when it was written, had been read, and was known to have arrived.
struct Flow {
    pair: Pair,
    client: ConnectionHandle,
    server: ConnectionHandle,
    written: Instant,
    id: StreamId,
    read: Option<Instant>,
    finished: Option<Instant>,
}

impl Flow {
    /// Written completely by a client that has just connected.
    fn new(config: PairConfig, bytes: usize) -> Self {
        let mut flow = Self::idle(config);
        flow.write(bytes);
        flow
    }

    fn write(&mut self, bytes: usize) {
        let Self { pair, client, id, .. } = self;
        pair.client.with(*client, |c| {
            assert_eq!(c.write(*id, vec![1; bytes].into()), Ok(bytes));
            c.finish(*id).unwrap();
        });
        self.written = self.pair.now;
    }

    fn idle(config: PairConfig) -> Self {
        let mut pair = Pair::new(config);
        let client = pair.connect();
        assert!(pair.drive_until(RTT * 4, |pair| {
            pair.client.connection(client).is_some_and(|c| !c.is_handshaking())
        }));
        let server = pair.server.accepted[0];
        let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
        Self { written: pair.now, pair, client, server, id, read: None, finished: None }
    }

    /// Drives until the sender knows.
    fn drive(&mut self) -> &mut Self {
        let Self { pair, server, id, read, finished, .. } = self;
        let mut accepted = false;
        assert!(pair.drive_until(RTT * 100, |pair| {
            accepted |= !accepted && pair.server.with(*server, |c| c.accept(Dir::Uni)).is_some();
            while accepted && read.is_none() {
                match pair.server.with(*server, |c| c.read(*id, usize::MAX, true)) {
                    Ok(Some(_)) => {}
                    Ok(None) => *read = Some(pair.now),
                    Err(ReadError::Blocked) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            let ends = |(_, event): &(_, Event)| *event == Event::Finished(*id);
            if finished.is_none() && pair.client.events.iter().any(ends) {
                *finished = Some(pair.now);
            }
            finished.is_some()
        }));
        self
    }

    fn after(&self, what: Option<Instant>) -> f64 {
        (what.unwrap() - self.written).as_secs_f64() / RTT.as_secs_f64()
    }

    /// Round trips from the last byte's arrival until the sender knew.
    fn lag(&self) -> f64 {
        self.after(self.finished) - self.after(self.read)
    }

    fn stats(&self) -> ConnectionStats {
        self.pair.client.connection(self.client).unwrap().stats()
    }

    /// How often the application was informed of the end, a long time later.
    fn announcements(&mut self) -> usize {
        self.pair.drive_until(RTT * 20, |_| false);
        let id = self.id;
        self.pair.client.events.iter().filter(|(_, event)| *event == Event::Finished(id)).count()
    }
}

/// A quarter of a millisecond, in round trips: packets on the link.
const MOMENT: f64 = 0.00625;

#[test]
fn the_sender_learns_of_the_end_a_round_trip_after_the_last_byte_has_left() {
    for packets in [1, 2, 3, 4, 5, 6, 8, 10, 20, 40, 100, 700, 2000] {
        let mut flow = Flow::new(config(|_| ()), packets * 1400);
        flow.drive();
        println!(
            "{packets:>5} packets: read after {:.3} round trips, known after {:.3}, {} bytes twice",
            flow.after(flow.read),
            flow.after(flow.finished),
            flow.stats().sent.duplicate_bytes
        );
        // Up to three packets only the primary carries: its acknowledgment may be delayed by 25 ms.
        let delay = if packets < 4 { 25.0 / 40.0 } else { 0.0 };
        assert!(flow.lag() < 0.5 + delay + MOMENT, "{packets} packets: {} round trips", flow.lag());
        assert_eq!(flow.announcements(), 1);
    }
}

#[test]
fn whichever_loop_brings_the_last_gap_the_sender_learns_of_it() {
    for lost in [3, 30] {
        let mut flow = Flow::new(config(|_| ()), 100 * 1400);
        let mut low = 0;
        flow.pair.client.set_tamper(Box::new(move |level, _| {
            low += usize::from(!level.is_primary());
            usize::from(level.is_primary() || low != lost)
        }));
        flow.drive();
        assert!(flow.after(flow.read) > 1.4, "the primary brings it a round trip later");
        assert!(flow.lag() < 0.5 + MOMENT, "{} round trips", flow.lag());
        assert_eq!(flow.announcements(), 1);
    }
}

#[test]
fn without_the_report_the_acknowledgment_of_the_primary_will_do() {
    let mut flow = Flow::new(config(|_| ()), 100 * 1400);
    flow.pair.server.set_tamper(Box::new(|level, _| usize::from(level.is_primary())));
    flow.drive();
    assert!(flow.lag() > 1.0, "{} round trips", flow.lag());
    assert_eq!(flow.announcements(), 1);
}

#[test]
fn what_rlp_brought_whole_is_not_reported_before_the_application_could_know_of_it() {
    let mut flow = Flow::idle(config(|_| ()));
    // The handshake ends.
    flow.pair.drive_until(RTT * 3, |_| false);
    flow.pair.client.set_tamper(Box::new(|level, _| usize::from(!level.is_primary())));
    // Another stream has filled the window, so RLP carries this one alone.
    let other = flow.pair.client.with(flow.client, |c| c.open(Dir::Uni)).unwrap();
    assert!(flow.pair.client.with(flow.client, |c| c.write(other, vec![1; 4 * 1400].into())).is_ok());
    flow.pair.step();
    flow.write(2 * 1400);
    let (client, id) = (flow.client, flow.id);
    flow.pair.drive_until(RTT * 3, |_| false);
    let stats = flow.stats().sent;
    let delivered: u64 = stats.levels.iter().map(|level| level.delivered_bytes).sum();
    assert!(delivered >= 2 * 1400, "RLP has brought all of it: {delivered}");
    assert!(!flow.pair.client.events.contains(&(client, Event::Finished(id))));
    flow.pair.client.set_tamper(Box::new(|_, _| 1));
    flow.drive();
    assert!(flow.finished > flow.read && flow.after(flow.read) > 3.0);
}

#[test]
fn a_sender_that_closes_as_soon_as_it_knows_leaves_a_whole_stream_behind() {
    let mut flow = Flow::new(config(|_| ()), 100 * 1400);
    let Flow { client, server, id, .. } = flow;
    let known = |pair: &mut Pair| pair.client.events.contains(&(client, Event::Finished(id)));
    assert!(flow.pair.drive_until(RTT * 4, known));
    let now = flow.pair.now;
    flow.pair.client.with(client, |c| {
        // For the application the stream has ended.
        assert!(c.stopped(id).is_err() && c.finish(id).is_err() && c.priority(id).is_err());
        assert!(c.reset(id, 1_u32.into()).is_err() && c.set_priority(id, 1).is_err());
        c.close(now, 0_u32.into(), bytes::Bytes::new());
    });
    // It reads only when the connection is gone.
    flow.pair.drive_until(RTT * 2, |_| false);
    let read = flow.pair.server.with(server, |c| {
        assert!(c.lost().is_some());
        assert_eq!(c.accept(Dir::Uni), Some(id));
        std::iter::from_fn(|| c.read(id, usize::MAX, true).unwrap())
            .map(|chunk| chunk.bytes.len())
            .sum::<usize>()
    });
    assert_eq!(read, 100 * 1400);
}

#[test]
fn a_reader_that_stops_after_the_last_byte_stops_nobody() {
    let mut flow = Flow::new(config(|_| ()), 100 * 1400);
    let Flow { client, server, id, .. } = flow;
    let known = |pair: &mut Pair| pair.client.events.contains(&(client, Event::Finished(id)));
    assert!(flow.pair.drive_until(RTT * 4, known));
    flow.pair.server.with(server, |c| {
        assert_eq!(c.accept(Dir::Uni), Some(id));
        c.stop(id, 7_u32.into()).unwrap();
    });
    assert_eq!(flow.announcements(), 1);
    let stopped = |(_, event): &(_, Event)| matches!(event, Event::Stopped(..));
    assert!(!flow.pair.client.events.iter().any(stopped));
}

#[test]
fn a_finished_stream_that_is_stopped_is_forgotten_once_released() {
    for released in [false, true] {
        let mut flow = Flow::new(config(|_| ()), 2000 * 1400);
        let Flow { client, server, id, .. } = flow;
        if released {
            flow.pair.client.with(client, |c| c.release(id));
        }
        flow.pair.drive_until(RTT * 3 / 4, |_| false);
        flow.pair.server.with(server, |c| {
            assert_eq!(c.accept(Dir::Uni), Some(id));
            c.stop(id, 7_u32.into()).unwrap();
        });
        let stopped =
            |pair: &mut Pair| pair.client.events.contains(&(client, Event::Stopped(id, 7_u32.into())));
        assert!(flow.pair.drive_until(RTT * 4, stopped));
        let code = flow.pair.client.with(client, |c| c.stopped(id));
        assert_eq!(code, if released { Err(ClosedStream) } else { Ok(Some(7_u32.into())) });
    }
}

#[test]
fn an_end_that_comes_after_the_last_byte_needs_no_window() {
    // The primary carries everything, RLP the end of it, or most of it.
    for packets in [4, 8, 100] {
        let mut flow = Flow::idle(config(|_| ()));
        let Flow { client, id, .. } = flow;
        let bytes = packets * 1380;
        assert_eq!(flow.pair.client.with(client, |c| c.write(id, vec![1; bytes].into())), Ok(bytes));
        flow.pair.drive_until(RTT / 10, |_| false);
        flow.pair.client.with(client, |c| c.finish(id)).unwrap();
        flow.written = flow.pair.now;
        flow.drive();
        assert!(flow.after(flow.read) < 0.51, "{packets} packets: {}", flow.after(flow.read));
        assert!(flow.lag() < 0.51, "{packets} packets: {} round trips", flow.lag());
        assert_eq!(flow.announcements(), 1);
    }
}
