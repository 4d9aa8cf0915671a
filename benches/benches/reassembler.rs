//! Merging both loops: a stream whose tail comes packet by packet downward, with holes, while the head grows.

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rc3_core::internals::{Loop, Reassembler};

const PACKET: u64 = 1400;
const PACKETS: u64 = 4000;
/// More than the holes below make.
const SPANS_MAX: usize = 16 * 1024;

/// Packets of the tail, highest first; each hole stands for a loss. Every packet has a buffer of its own, as
/// it comes from a socket.
fn tail(hole_every: u64) -> Vec<(u64, Bytes)> {
    let numbers = (0..PACKETS).rev().filter(|nth| nth % hole_every != 0);
    numbers.map(|nth| (nth * PACKET, Bytes::from(vec![7; PACKET as usize]))).collect()
}

fn insert(packets: Vec<(u64, Bytes)>) -> Reassembler {
    let mut stream = Reassembler::new(SPANS_MAX);
    for (offset, data) in packets {
        stream.insert(offset, data, PACKET as usize, Loop::Rlp);
    }
    stream
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("reassembler");
    group.throughput(Throughput::Elements(PACKETS));
    for hole_every in [PACKETS, 100, 2] {
        group.bench_function(format!("descending tail, 1 of {hole_every} lost"), |b| {
            b.iter_batched(|| tail(hole_every), insert, BatchSize::LargeInput);
        });
    }
    group.bench_function("fill the holes and read", |b| {
        b.iter_batched(
            || (insert(tail(2)), Bytes::from(vec![7; PACKET as usize])),
            |(mut stream, data)| {
                let mut read = 0;
                for nth in (0..PACKETS).filter(|nth| nth % 2 == 0) {
                    stream.insert(nth * PACKET, data.clone(), PACKET as usize, Loop::Primary);
                    while let Ok(Some(chunk)) = stream.read(usize::MAX, true) {
                        read += chunk.bytes.len() as u64;
                    }
                }
                assert_eq!(read, PACKETS * PACKET);
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(reassembler_benches, benches);
criterion_main!(reassembler_benches);
