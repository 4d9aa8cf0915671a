//! How often a receiver acknowledges (RFC 9000 §13.2.2).

use std::time::Duration;

use rc3_core::{ConnectionHandle, RlpMode, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

fn path(mbits: u64, rtt: Duration) -> PairConfig {
    let rate = Rate::from_bits_per_second(mbits * 1_000_000);
    let link = LinkConfig { rate, delay: rtt / 2, ..LinkConfig::default() };
    PairConfig::symmetric(link, 10_000_000)
}

/// Datagrams that a receiver of `bytes` sends for each that arrives, without RLP.
fn answers(mbits: u64, rtt: Duration, bytes: u64) -> f64 {
    let mut config = path(mbits, rtt);
    for side in [&mut config.client, &mut config.server] {
        side.rlp(RlpMode::Off);
    }
    let report = Pair::new(config).flow(bytes, Duration::from_secs(60)).expect("it arrives");
    let answers = report.receiver.udp_tx.datagrams as f64 / report.receiver.udp_rx.datagrams as f64;
    println!("{mbits} Mbit/s x {rtt:?}, {bytes} bytes: {answers:.3}");
    answers
}

#[test]
fn ten_packets_of_a_fast_path_share_an_acknowledgment() {
    let share = answers(200, Duration::from_millis(40), 10_000_000);
    assert!((0.1..0.15).contains(&share), "{share}");
    // A millisecond holds five or more.
    let share = answers(60, Duration::from_millis(10), 10_000_000);
    assert!((0.15..0.25).contains(&share), "{share}");
}

#[test]
fn on_slow_and_short_paths_and_in_small_windows_every_second_packet_is_acknowledged() {
    for (mbits, rtt, bytes) in [(20, 60, 3_000_000), (200, 6, 10_000_000), (200, 40, 100_000)] {
        let share = answers(mbits, Duration::from_millis(rtt), bytes);
        assert!((0.45..1.0).contains(&share), "{share}");
    }
}

#[test]
fn packets_of_a_long_fast_flow_are_read_together() {
    for (rtt, bytes, expected) in
        [(40, 30_000_000, 0.2..0.4), (40, 1_000_000, 0.7..1.01), (6, 10_000_000, 0.7..1.01)]
    {
        let (mut reads, mut received) = (0, 0);
        let limit = Duration::from_secs(60);
        let report = Pair::new(path(200, Duration::from_millis(rtt))).flow_watched(bytes, limit, |pair| {
            let now = pair.server.connection(ConnectionHandle(0)).map_or(0, |c| c.stats().udp_rx.datagrams);
            reads += u64::from(std::mem::replace(&mut received, now) != now);
        });
        let share = reads as f64 / report.expect("it arrives").receiver.udp_rx.datagrams as f64;
        println!("{rtt} ms, {bytes} bytes: {share:.3}");
        assert!(expected.contains(&share), "{share}");
    }
}
