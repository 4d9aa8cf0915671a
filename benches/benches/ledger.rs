//! Who answers for each byte of a 10 MB flow: RLP claims the tail packet by packet, the primary the head,
//! SACKs come back with every hundredth packet lost.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rc3_core::{
    internals::Ledger,
    units::{Level, Span},
};

const FLOW: u64 = 10_000_000;
const PACKET: u64 = 1400;
const PACKETS: u64 = FLOW / PACKET;

fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.append(FLOW);
    ledger
}

fn claim_tail(ledger: &mut Ledger) {
    while let Some(span) = ledger.next_for_rlp(PACKET, u64::MAX, 0) {
        ledger.sent_by_rlp(span, Level::FIRST);
    }
}

/// One SACK per packet, highest first, as they come on an idle link.
fn sack(ledger: &mut Ledger) -> u64 {
    let mut newly = 0;
    for nth in (0..=PACKETS).filter(|nth| nth % 100 != 0) {
        let end = FLOW - nth * PACKET;
        newly += ledger.delivered(Span::new(end.saturating_sub(PACKET), end), true, |_, _| {});
    }
    newly
}

fn take_head(ledger: &mut Ledger) -> u64 {
    let mut duplicate = 0;
    while let Some(span) = ledger.next_for_primary(PACKET) {
        duplicate += ledger.hand_to_primary(span);
    }
    duplicate
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("ledger");
    group.throughput(Throughput::Elements(PACKETS));
    group.bench_function("claim the tail", |b| {
        b.iter_batched_ref(ledger, claim_tail, BatchSize::SmallInput);
    });
    let claimed = || {
        let mut ledger = ledger();
        claim_tail(&mut ledger);
        ledger
    };
    group.bench_function("sack", |b| b.iter_batched_ref(claimed, sack, BatchSize::SmallInput));
    let sacked = || {
        let mut ledger = claimed();
        sack(&mut ledger);
        ledger
    };
    group.bench_function("take what is lost", |b| {
        b.iter_batched_ref(sacked, take_head, BatchSize::SmallInput);
    });
    group.finish();
}

criterion_group!(ledger_benches, benches);
criterion_main!(ledger_benches);
