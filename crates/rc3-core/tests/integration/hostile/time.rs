//! Peers that vanish, addresses that change, clocks that jump.

use std::time::Duration;

use rc3_core::ConnectionError;
use rc3_sim::{Impairments, LinkConfig};

use super::support::*;

#[test]
fn a_peer_that_vanishes_in_mid_transfer_is_given_up_and_forgotten_by_both() {
    let idle = Duration::from_secs(5);
    let mut pair = world_with(|config| {
        config.max_idle_timeout(Some(idle.try_into().unwrap()));
    });
    let (client, server) = connected(&mut pair);
    let (up, down) = (Tap::default(), Tap::default());
    pair.client.set_tamper(up.tamper());
    pair.server.set_tamper(down.tamper());
    send(&mut pair, client, 5_000_000);
    pair.drive_until(RTT * 3, |_| false);
    up.lock().lose_all = true;
    down.lock().lose_all = true;
    let begun = pair.now;
    let before = up.lock().seen.len();
    let mut timed_out = [false; 2];
    assert!(pair.drive_until(idle * 4, |pair| {
        for (node, timed_out) in [&pair.client, &pair.server].into_iter().zip(&mut timed_out) {
            let lost = |(_, event): &_| matches!(event, rc3_core::Event::Lost(ConnectionError::TimedOut));
            *timed_out |= node.events.iter().any(lost);
        }
        timed_out == [true; 2]
    }));
    assert!(pair.now - begun >= idle, "{:?}", pair.now - begun);
    // The bytes sent in vain are bounded: a window of RLP and the probes of the primary.
    let in_vain: usize = up.lock().seen[before..].iter().map(|(_, contents)| contents.len()).sum();
    assert!(in_vain < 8_000_000, "{in_vain} bytes");
    pair.drive();
    assert!(pair.client.connection(client).is_none() && pair.server.connection(server).is_none());
    assert_eq!((pair.client.endpoint().poll_timeout(), pair.server.endpoint().poll_timeout()), (None, None));
}

/// The result of a transfer.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Arrived,
    GivenUp,
}

/// The clock advances by `jump` during a transfer, as when the host or the process was suspended.
///
/// The first acknowledgment after that measures a round trip of the whole jump (RFC 9002 §5), so timers have that order
/// for a while.
fn transfer_with_a_jump(idle: Option<Duration>, jump: Duration) -> Outcome {
    let mut pair = world_with(|config| {
        config.max_idle_timeout(idle.map(|idle| idle.try_into().unwrap()));
    });
    let (client, server) = connected(&mut pair);
    send(&mut pair, client, 2_000_000);
    let mut reader = Reader::default();
    pair.drive_until(RTT * 2, |pair| {
        reader.pump(pair, server);
        false
    });
    assert_eq!(reader.ended, 0);
    pair.now += jump;
    assert!(pair.drive_until(jump * 100 + RTT * 300, |pair| {
        if pair.server.connection(server).is_none_or(|connection| connection.lost().is_some()) {
            return true;
        }
        reader.pump(pair, server);
        reader.ended == 1
    }));
    if reader.ended == 1 { Outcome::Arrived } else { Outcome::GivenUp }
}

#[test]
fn a_jump_of_the_clock_delays_a_transfer_and_loses_nothing() {
    for jump in [1, 60, 3600, 100 * 365 * 86_400] {
        assert_eq!(transfer_with_a_jump(None, Duration::from_secs(jump)), Outcome::Arrived, "{jump} s");
    }
}

#[test]
fn a_jump_far_beyond_the_idle_timeout_ends_in_one_way_or_the_other() {
    let idle = Some(Duration::from_secs(30));
    assert_eq!(transfer_with_a_jump(idle, Duration::from_secs(1)), Outcome::Arrived);
    for jump in [60, 86_400, 10 * 365 * 86_400] {
        transfer_with_a_jump(idle, Duration::from_secs(jump));
    }
}

#[test]
fn an_end_that_asks_for_time_in_the_past_is_answered() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    send(&mut pair, client, 1_000_000);
    pair.drive_until(RTT, |_| false);
    // The server's clock stops for a while, as a coarse one does.
    let early = pair.now - RTT / 2;
    let mut buf = Vec::new();
    while pair.server.endpoint().poll_rlp(early, 1, &mut buf).is_some() {
        buf.clear();
    }
    pair.server.endpoint().handle_timeout(early);
    let mut reader = Reader::default();
    assert!(pair.drive_until(RTT * 100, |pair| {
        reader.pump(pair, server);
        reader.ended == 1
    }));
}

#[test]
fn addresses_that_change_all_the_time_cost_no_byte() {
    let rate = rc3_core::units::Rate::from_bits_per_second(50_000_000);
    let impairments = Impairments {
        duplicate: 0.05,
        reorder: 0.05,
        reorder_delay: Duration::from_millis(15),
        ..Impairments::loss(0.02)
    };
    let link = LinkConfig { rate, delay: RTT / 2, impairments, seed: 7, ..LinkConfig::default() };
    let mut pair = rc3_sim::Pair::new(rc3_sim::PairConfig::symmetric(link, 200_000));
    let (client, server) = connected(&mut pair);
    send(&mut pair, client, 6_000_000);
    let mut reader = Reader::default();
    let mut next = pair.now + RTT * 4;
    let mut moves = 0_u8;
    let done = pair.drive_until(Duration::from_secs(120), |pair| {
        if pair.now >= next {
            next = pair.now + RTT * 15;
            moves = moves.wrapping_add(1);
            pair.client.set_address(([10, 1, moves, 7], 5000 + u16::from(moves)).into());
        }
        reader.pump(pair, server);
        reader.ended == 1
    });
    assert!(done, "{moves} moves, {:?}", pair.server.connection(server).unwrap().lost());
    assert!(moves >= 2, "{moves} moves");
}
