//! What a whole connection costs: 10 MB over an idle 1 Gbit/s x 40 ms link in simulated time, both ends, TLS
//! and the link together.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rc3_core::{RlpMode, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const BYTES: u64 = 10_000_000;

fn flow(rlp: RlpMode) -> Duration {
    let rate = Rate::from_bits_per_second(1_000_000_000);
    let link = LinkConfig { rate, delay: Duration::from_millis(20), ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    config.batch = 44;
    for side in [&mut config.client, &mut config.server] {
        side.rlp(rlp).nic_rate(rate).initial_mtu(1452).mtu_discovery(false);
    }
    Pair::new(config).flow(BYTES, Duration::from_secs(60)).expect("it arrives").fct
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("flow of 10 MB");
    group.sample_size(10).throughput(Throughput::Bytes(BYTES));
    for (name, rlp) in [("plain", RlpMode::Off), ("rc3", RlpMode::Trust)] {
        group.bench_function(name, |b| b.iter(|| flow(rlp)));
    }
    group.finish();
}

criterion_group!(flow_benches, benches);
criterion_main!(flow_benches);
