//! Flow completion times on an idle 1 Gbit/s x 40 ms link, against arithmetic: plain QUIC is textbook slow start,
//! rc3 is one connect, half a round trip and N/A (RC3 §3).

use std::{collections::VecDeque, time::Duration};

use rc3_core::{Congestion, RlpMode, VarInt, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const MTU: u16 = 1472;
const RTT: f64 = 0.040;
const BITS_PER_SECOND: f64 = 1e9;
/// RTT x rate.
const BDP: u64 = 5_000_000;

fn world(rlp: RlpMode, buffer: u64) -> Pair {
    let rate = Rate::from_bits_per_second(BITS_PER_SECOND as u64);
    let link = LinkConfig { rate, delay: Duration::from_millis(20), ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, buffer);
    for side in [&mut config.client, &mut config.server] {
        side.rlp(rlp).nic_rate(rate);
        side.congestion(Congestion::NewReno).initial_window(Some(4 * u64::from(MTU) + 1)).paced(false);
        side.initial_mtu(MTU).mtu_discovery(false);
        let window = VarInt::from_u32(1 << 30);
        side.stream_receive_window(window).receive_window(window).send_window(1 << 30);
    }
    Pair::new(config)
}

fn fct(rlp: RlpMode, bytes: u64, buffer: u64) -> f64 {
    let report = world(rlp, buffer).flow(bytes, Duration::from_secs(60));
    report.unwrap_or_else(|| panic!("{bytes} bytes did not arrive")).fct.as_secs_f64()
}

/// Slow start packet by packet: every acknowledged packet allows two, the link serves one at a time.
fn textbook(bytes: u64) -> f64 {
    // Short header, tag and STREAM frame header take about 36 bytes of a UDP payload, IP and UDP 28 on the wire.
    let packets = bytes.div_ceil(u64::from(MTU) - 36);
    let service = f64::from(MTU + 28) * 8.0 / BITS_PER_SECOND;
    let mut released: VecDeque<f64> = [RTT; 4].into();
    let mut free = 0.0_f64;
    for _ in 1..packets {
        let start = released.pop_front().expect("slow start never stalls").max(free);
        free = start + service;
        released.extend([free + RTT; 2]);
    }
    released.pop_front().expect("one left").max(free) + service + RTT / 2.0
}

#[test]
fn plain_newreno_is_textbook_slow_start_within_one_per_cent() {
    for bytes in [10_000, 100_000, 1_000_000, BDP, 2 * BDP, 100_000_000] {
        // Slow start ends with a loss; beyond two products it must not.
        let buffer = if bytes <= 2 * BDP { BDP } else { u64::MAX };
        let (measured, expected) = (fct(RlpMode::Off, bytes, buffer), textbook(bytes));
        let deviation = measured / expected - 1.0;
        println!("{bytes:>9} bytes: {:.2} ms, textbook {:.2} ms", measured * 1e3, expected * 1e3);
        assert!(deviation.abs() < 0.01, "{bytes} bytes: {measured} s, textbook {expected} s");
    }
}

#[test]
fn rc3_is_ideal_within_three_per_cent_up_to_the_bdp() {
    for bytes in [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, BDP] {
        let ideal = 1.5 * RTT + bytes as f64 * 8.0 / BITS_PER_SECOND;
        let measured = fct(RlpMode::Trust, bytes, BDP);
        println!("{bytes:>9} bytes: {:.2} ms, ideal {:.2} ms", measured * 1e3, ideal * 1e3);
        assert!(measured >= ideal && measured < ideal * 1.03, "{bytes} bytes: {measured} s, ideal {ideal} s");
    }
}

#[test]
fn overshoot_of_slow_start_does_not_end_a_connection() {
    // 100 MB into a buffer of one BDP: thousands of packets are lost, every other one.
    let report = world(RlpMode::Off, BDP).flow(100_000_000, Duration::from_secs(60)).expect("it arrives");
    assert!(report.sender.path.lost_packets > 1024, "too few losses to prove anything");
    let report = world(RlpMode::Trust, BDP).flow(100_000_000, Duration::from_secs(60)).expect("it arrives");
    assert!(report.sender.path.lost_packets > 1024, "too few losses to prove anything");
}

#[test]
fn default_settings_with_pacing_and_mtu_discovery_are_as_good_on_a_path_that_is_known() {
    // RLP sends what the pacer or a probe of the path MTU delays.
    let (rtt, mbits) = (0.080, 200);
    let rate = Rate::from_bits_per_second(mbits * 1_000_000);
    for batch in [1, 10] {
        for bytes in [1_000, 10_000, 30_000, 100_000, 1_000_000] {
            let link = LinkConfig { rate, delay: Duration::from_millis(40), ..LinkConfig::default() };
            let mut config = PairConfig::symmetric(link, 2_000_000);
            config.batch = batch;
            config.client.nic_rate(rate);
            config.server.nic_rate(rate);
            let mut pair = Pair::new(config);
            pair.flow(10_000_000, Duration::from_secs(60)).expect("it arrives");
            // The handshake is over, and a probe in flight, before the application writes.
            let report = pair.flow(bytes, Duration::from_secs(60)).expect("it arrives");
            let ideal = 1.5 * rtt + bytes as f64 * 8.0 / (mbits as f64 * 1e6);
            let measured = report.fct.as_secs_f64();
            println!("{bytes} bytes: {:.3} x ideal", measured / ideal);
            assert!(measured < ideal * 1.15, "{bytes} bytes: {measured} s, ideal {ideal} s");
        }
    }
}
