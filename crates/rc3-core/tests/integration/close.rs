//! The peer learns the code and the reason of a close at once, whatever waits to be sent (RFC 9000 §10.2).

use std::{
    any::Any,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rc3_core::{
    Congestion, ConnectionError, ConnectionHandle, Dir, Event, RlpMode, TransportConfig, TransportErrorCode,
    congestion::{Controller, ControllerFactory, ControllerMetrics},
    units::Rate,
};
use rc3_sim::{LinkConfig, Node, Pair, PairConfig};

const RTT: Duration = Duration::from_millis(40);
const BUFFER: u64 = 100_000;
const MODES: [RlpMode; 3] = [RlpMode::Off, RlpMode::Guard, RlpMode::Trust];
const CODE: u32 = 7;
const REASON: &[u8] = b"bye";

fn world(mbits: u64, change: impl Fn(&mut TransportConfig)) -> Pair {
    let rate = Rate::from_bits_per_second(mbits * 1_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig { priority: false, ..PairConfig::symmetric(link, BUFFER) };
    change(&mut config.client);
    change(&mut config.server);
    Pair::new(config)
}

fn is_up(node: &Node, handle: ConnectionHandle) -> bool {
    node.connection(handle).is_some_and(|connection| !connection.is_handshaking())
}

fn connected(pair: &mut Pair) -> (ConnectionHandle, ConnectionHandle) {
    let client = pair.connect();
    assert!(pair.drive_until(RTT * 200, |pair| {
        is_up(&pair.client, client)
            && pair.server.accepted.front().is_some_and(|&handle| is_up(&pair.server, handle))
    }));
    (client, pair.server.accepted[0])
}

/// More than any test can deliver waits on a stream.
fn load(node: &mut Node, handle: ConnectionHandle) {
    node.with(handle, |connection| {
        connection.set_send_window(8 << 20);
        let id = connection.open(Dir::Uni).expect("the handshake is complete");
        connection.write(id, vec![1; 6 << 20].into()).unwrap();
    });
}

fn close(node: &mut Node, handle: ConnectionHandle, now: Instant) {
    node.with(handle, |connection| connection.close(now, CODE.into(), Bytes::from_static(REASON)));
}

/// Why the peer lost the connection, and when, if it did within `limit`.
fn loss(pair: &mut Pair, limit: Duration, at: fn(&Pair) -> &Node) -> Option<(ConnectionError, Duration)> {
    let since = pair.now;
    let lost = |pair: &Pair| {
        at(pair).events.iter().find_map(|(_, event)| match event {
            Event::Lost(reason) => Some(reason.clone()),
            _ => None,
        })
    };
    pair.drive_until(limit, |pair| lost(pair).is_some());
    lost(pair).map(|reason| (reason, pair.now - since))
}

fn server(pair: &Pair) -> &Node {
    &pair.server
}

fn client(pair: &Pair) -> &Node {
    &pair.client
}

fn assert_learnt(what: &str, lost: Option<(ConnectionError, Duration)>, limit: Duration) {
    match lost {
        Some((ConnectionError::ApplicationClosed(close), after)) => {
            assert_eq!((close.error_code, &close.reason[..]), (CODE.into(), REASON), "{what}");
            assert!(after <= limit, "{what}: after {after:?}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// The path with its queue full.
fn one_way(mbits: u64) -> Duration {
    RTT / 2 + Duration::from_micros(BUFFER * 8 / mbits) + Duration::from_millis(2)
}

#[test]
fn a_full_window_holds_no_close_back() {
    for mode in MODES {
        for congestion in [Congestion::NewReno, Congestion::Cubic, Congestion::Bbr] {
            for (mbits, paced) in [(5, true), (20, false), (100, true)] {
                for round_trips in [1, 5] {
                    let mut pair = world(mbits, |side| {
                        side.rlp(mode).congestion(congestion).paced(paced);
                    });
                    let (near, _) = connected(&mut pair);
                    load(&mut pair.client, near);
                    pair.drive_until(RTT * round_trips + Duration::from_micros(700), |_| false);
                    let sent = pair.client.traffic.with(pair.server.address()).sent;
                    close(&mut pair.client, near, pair.now);
                    // The full queue may drop the first one; each datagram of the peer causes another.
                    let lost = loss(&mut pair, RTT * 12, server);
                    let what = format!(
                        "{mode:?} {congestion:?} {mbits} paced: {paced}, {round_trips} RTT, {sent} B"
                    );
                    assert_learnt(&what, lost, one_way(mbits) + RTT);
                }
            }
        }
    }
}

#[test]
fn lost_data_holds_no_close_back() {
    for mode in MODES {
        for lost_every in [7, 11, 16, 30] {
            let mut pair = world(20, |side| {
                side.rlp(mode);
            });
            let (near, _) = connected(&mut pair);
            let mut sent = 0;
            pair.client.set_tamper(Box::new(move |_, _| {
                sent += 1;
                usize::from(sent % lost_every != 0)
            }));
            load(&mut pair.client, near);
            pair.drive_until(RTT * 4 + RTT / 3, |_| false);
            pair.client.set_tamper(Box::new(|_, _| 1));
            close(&mut pair.client, near, pair.now);
            let lost = loss(&mut pair, RTT * 3, server);
            assert_learnt(&format!("{mode:?}, one of {lost_every}"), lost, one_way(20) + RTT);
        }
    }
}

/// Has a rate of a hundred packets a second, and no bound.
#[derive(Debug, Clone)]
struct Slow;

impl ControllerFactory for Slow {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Self)
    }
}

impl Controller for Slow {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        1 << 40
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.pacing_rate = Some(1_200_000);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self)
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[test]
fn no_pacer_holds_a_close_back() {
    for mode in MODES {
        for named_rate in [true, false] {
            let mut pair = world(100, |side| {
                side.rlp(mode).initial_window(Some(1 << 20));
                if named_rate {
                    side.congestion_controller_factory(Arc::new(Slow));
                }
            });
            let (near, _) = connected(&mut pair);
            let mut sent = 0;
            pair.client.set_tamper(Box::new(move |_, _| {
                sent += 1;
                usize::from(sent % 3 != 0)
            }));
            load(&mut pair.client, near);
            // Lost data waits for the pacer.
            let lost_packets =
                |pair: &Pair| pair.client.connection(near).unwrap().stats().path.lost_packets > 0;
            assert!(pair.drive_until(RTT * 100, |pair| lost_packets(pair)));
            pair.client.set_tamper(Box::new(|_, _| 1));
            close(&mut pair.client, near, pair.now);
            let what = format!("{mode:?}, the controller's rate: {named_rate}");
            assert_learnt(&what, loss(&mut pair, RTT * 3, server), one_way(100));
        }
    }
}

/// Both ends may close, whatever they have sent of the handshake; before there are keys for it, codes of applications do not
/// leave (RFC 9000 §10.2.3).
#[test]
fn a_close_during_the_handshake_ends_it_at_the_peer() {
    for mode in MODES {
        for by_client in [true, false] {
            for eighths in 0..12 {
                let mut pair = world(20, |side| {
                    side.rlp(mode);
                });
                let near = pair.connect();
                pair.drive_until(RTT * eighths / 8 + Duration::from_micros(100), |_| false);
                let far = pair.server.accepted.front().copied();
                let (closer, handle, at): (_, _, fn(&Pair) -> &Node) = match (by_client, far) {
                    (true, _) => (&mut pair.client, near, server),
                    (false, Some(far)) => (&mut pair.server, far, client),
                    (false, None) => continue,
                };
                close(closer, handle, pair.now);
                let lost = loss(&mut pair, RTT * 3, at);
                let what = format!("{mode:?}, by client: {by_client}, after {eighths} / 8 RTT: {lost:?}");
                match lost {
                    Some((ConnectionError::ApplicationClosed(close), after)) => {
                        assert_eq!((close.error_code, &close.reason[..]), (CODE.into(), REASON), "{what}");
                        assert!(after <= one_way(20), "{what}");
                    }
                    Some((ConnectionError::ConnectionClosed(close), after)) => {
                        assert_eq!(close.error_code, TransportErrorCode::APPLICATION_ERROR, "{what}");
                        assert!(after <= one_way(20), "{what}");
                    }
                    _ => panic!("{what}"),
                }
            }
        }
    }
}

#[test]
fn a_server_that_may_not_send_more_closes_with_the_next_datagram_of_the_client() {
    let mut pair = world(20, |_| ());
    pair.connect();
    pair.drive_until(RTT / 2 + RTT / 4, |_| false);
    let far = pair.server.accepted[0];
    // It repeats its flight until the limit of RFC 9000 §8.1.
    pair.client.set_tamper(Box::new(|_, _| 0));
    pair.server.set_tamper(Box::new(|_, _| 0));
    pair.drive_until(Duration::from_secs(8), |_| false);
    let sent = |pair: &Pair| pair.server.traffic.with(pair.client.address()).sent;
    let before = sent(&pair);
    close(&mut pair.server, far, pair.now);
    pair.server.set_tamper(Box::new(|_, _| 1));
    pair.drive_until(RTT, |_| false);
    assert_eq!(sent(&pair), before, "the limit is reached");
    pair.client.set_tamper(Box::new(|_, _| 1));
    let lost = loss(&mut pair, Duration::from_secs(20), client);
    assert!(matches!(lost, Some((ConnectionError::ConnectionClosed(_), _))), "{lost:?}");
}

/// The limit of RFC 9000 §8.1 holds a close back until the client's next long datagram.
#[test]
fn an_address_that_is_not_validated_learns_of_a_close() {
    for mode in MODES {
        let mut pair = world(20, |side| {
            side.rlp(mode).keep_alive_interval(Some(RTT));
        });
        let (_, far) = connected(&mut pair);
        load(&mut pair.server, far);
        pair.drive_until(RTT * 4, |_| false);
        // The same host behind a NAT, whose new port the server sees.
        let moved = (pair.client.address().ip(), 7).into();
        pair.client.set_address(moved);
        let remote = |pair: &Pair| pair.server.connection(far).unwrap().remote_address();
        assert!(pair.drive_until(RTT * 20, |pair| remote(pair) == moved));
        pair.drive_until(RTT / 2, |_| false);
        close(&mut pair.server, far, pair.now);
        let lost = loss(&mut pair, RTT * 3, client);
        assert_learnt(&format!("{mode:?}"), lost, RTT * 3 / 2);
    }
}
