//! Flow completion times on an idle link, against arithmetic.
use std::time::Duration;

use rc3_core::{Congestion, RlpMode, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const MTU: u16 = 1472;

fn gigabit() -> Rate {
    Rate::from_bits_per_second(1_000_000_000).unwrap()
}

fn world(rlp: RlpMode) -> Pair {
    let link =
        LinkConfig { rate: Some(gigabit()), delay: Duration::from_millis(20), ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    for side in [&mut config.client, &mut config.server] {
        side.rlp(rlp)
            .congestion(Congestion::NewReno)
            .initial_window(Some(4 * u64::from(MTU) + 1))
            .paced(false);
        side.initial_mtu(MTU).mtu_discovery(false).nic_rate(Some(gigabit()));
        side.stream_receive_window(1 << 30).receive_window(1 << 30).send_window(1 << 30);
    }
    Pair::new(config)
}

#[test]
fn print_table() {
    for bytes in [10_000, 100_000, 1_000_000, 5_000_000, 10_000_000, 100_000_000] {
        for mode in [RlpMode::Off, RlpMode::Trust] {
            let mut pair = world(mode);
            let report = pair.flow(bytes, Duration::from_secs(60));
            let Some(r) = report else {
                println!("{bytes} {mode:?} timeout");
                continue;
            };
            println!(
                "{bytes} {mode:?} {:?} ideal {:.2} prim {} dup {} skipped {} rlp {:?} recv {} {:?} dup {} sacks {}/{}",
                r.fct,
                60.0 + bytes as f64 * 8e-6,
                r.sender.sent.primary_bytes,
                r.sender.sent.duplicate_bytes,
                r.sender.sent.skipped_bytes,
                r.sender
                    .sent
                    .levels
                    .iter()
                    .filter(|l| l.packets > 0)
                    .map(|l| (l.packets, l.bytes, l.delivered_bytes))
                    .collect::<Vec<_>>(),
                r.receiver.received.primary_bytes,
                &r.receiver.received.rlp_bytes[..5],
                r.receiver.received.duplicate_bytes,
                r.sender.sent.sacks,
                r.receiver.received.sacks,
            );
        }
    }
}
