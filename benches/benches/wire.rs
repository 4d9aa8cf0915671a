//! What one RLP datagram costs: sealing, opening, frames, SACKs. A UDP payload of 1452 bytes is what fits
//! into an Ethernet frame over IPv6.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rc3_core::{
    internals::{
        keys::{Aead, RlpKeys, SECRET_LEN, Sealer},
        wire::{DataHeader, Frame, Frames, TAG_LEN, sack},
    },
    units::{Level, Receipt, Span},
};

const DATAGRAM: usize = 1452;
const SACK_SPANS: u64 = 300;
const HEADER: DataHeader = DataHeader {
    stream: 4,
    offset: 1_000_000,
    final_size: Some(9_000_000),
    explicit_len: None,
    receipt: Receipt(7),
};

fn keys() -> (RlpKeys, RlpKeys) {
    let (client, server) = ([1; SECRET_LEN], [2; SECRET_LEN]);
    let keys = |side_is_client| RlpKeys::new(&Aead, [&client, &server], side_is_client);
    (keys(true), keys(false))
}

fn seal(keys: &mut RlpKeys, buf: &mut Vec<u8>) {
    buf.clear();
    let sealing = keys.seal.begin(Level::FIRST, buf);
    HEADER.emit(buf);
    buf.resize(DATAGRAM - TAG_LEN, 7);
    keys.seal.finish(sealing, buf);
}

fn spans() -> impl Iterator<Item = (Span, Receipt)> {
    (0..SACK_SPANS).map(|nth| (Span::new(2_000_000 + nth * 9_000, 2_001_400 + nth * 9_000), Receipt(7)))
}

fn datagrams(c: &mut Criterion) {
    let mut group = c.benchmark_group("datagram");
    group.throughput(Throughput::Bytes(DATAGRAM as u64));
    let (mut client, mut server) = keys();
    let mut buf = Vec::with_capacity(2 * DATAGRAM);
    group.bench_function("seal", |b| b.iter(|| seal(&mut client, black_box(&mut buf))));
    group.bench_function("open", |b| {
        b.iter_batched_ref(
            || {
                seal(&mut client, &mut buf);
                buf.clone()
            },
            |datagram| server.open.open(datagram).expect("sealed by the peer"),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn frames(c: &mut Criterion) {
    let mut payload = Vec::new();
    HEADER.emit(&mut payload);
    payload.resize(DATAGRAM - Sealer::OVERHEAD, 7);
    c.bench_function("frame/data", |b| {
        b.iter(|| match Frames::new(black_box(&payload)).next() {
            Some(Ok(Frame::Data(data))) => data.span(),
            other => panic!("not the frame that was written: {other:?}"),
        });
    });

    let mut group = c.benchmark_group("sack");
    group.throughput(Throughput::Elements(SACK_SPANS));
    let mut buf = Vec::new();
    group.bench_function("emit", |b| {
        b.iter(|| {
            buf.clear();
            sack::emit(4, spans(), usize::MAX, black_box(&mut buf))
        });
    });
    buf.clear();
    assert_eq!(sack::emit(4, spans(), usize::MAX, &mut buf) as u64, SACK_SPANS);
    group.bench_function("parse", |b| {
        b.iter(|| match Frames::new(black_box(&buf)).next() {
            Some(Ok(Frame::Sack(sack))) => sack.spans().map(|(span, _)| span.len()).sum::<u64>(),
            other => panic!("not the frame that was written: {other:?}"),
        });
    });
    group.finish();
}

criterion_group!(benches, datagrams, frames);
criterion_main!(benches);
