//! How often a receiver acknowledges (RFC 9000 §13.2.2).

use std::time::Duration;

use rc3_core::{RlpMode, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

/// Datagrams that a receiver of `bytes` sends for each that arrives, without RLP.
fn answers(mbits: u64, rtt: Duration, bytes: u64) -> f64 {
    let rate = Rate::from_bits_per_second(mbits * 1_000_000);
    let link = LinkConfig { rate, delay: rtt / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 10_000_000);
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
