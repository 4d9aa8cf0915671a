//! What a whole connection costs in simulated time, both ends, TLS and the link together: 10 MB over an idle 1 Gbit/s x
//! 40 ms link, and 64 MB where the link is no limit.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rc3_core::{RlpMode, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

fn flow(bytes: u64, gigabits: u64, delay: Duration, rlp: RlpMode) -> Duration {
    let rate = Rate::from_bits_per_second(gigabits * 1_000_000_000);
    let mut config = PairConfig::symmetric(LinkConfig { rate, delay, ..LinkConfig::default() }, 5_000_000);
    config.batch = 44;
    for side in [&mut config.client, &mut config.server] {
        side.rlp(rlp).nic_rate(rate).initial_mtu(1452).mtu_discovery(false);
    }
    Pair::new(config).flow(bytes, Duration::from_secs(60)).expect("it arrives").fct
}

fn benches(c: &mut Criterion) {
    for (name, bytes, gigabits, delay) in [
        ("flow of 10 MB", 10_000_000, 1, Duration::from_millis(20)),
        ("bulk of 64 MB", 64_000_000, 100, Duration::from_micros(100)),
    ] {
        let mut group = c.benchmark_group(name);
        group.sample_size(10).throughput(Throughput::Bytes(bytes));
        for (name, rlp) in [("plain", RlpMode::Off), ("rc3", RlpMode::Trust)] {
            group.bench_function(name, |b| b.iter(|| flow(bytes, gigabits, delay, rlp)));
        }
        group.finish();
    }
}

criterion_group!(flow_benches, benches);
criterion_main!(flow_benches);
