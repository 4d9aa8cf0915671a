//! What one packet costs in a router: in and out, with and without a signal, by discipline. Packets of 1500 bytes.

use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kickass::{
    Rate,
    packet::Packet,
    queue::{DropTail, FqCodel, FqCodelConfig, Levels, Queue, StrictPriority},
    rcp,
    router::{Router, RouterConfig},
};

const LEN: usize = 1500;
const LIMIT: u64 = 1 << 20;
/// Packets that wait while one is measured.
const WAITING: usize = 32;

/// A UDP datagram over IPv4.
fn packet(dont_fragment: bool) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    let flags = if dont_fragment { 0x40 } else { 0 };
    bytes[..20].copy_from_slice(&[0x45, 0, 5, 0xdc, 0, 7, flags, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = bytes[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes
}

/// A router of 1 Gbit/s with the law of RCP, in which some packets wait.
fn router<Q: Queue<Packet>>(queue: Q, packet: &[u8], now: Instant) -> Router<Q, rcp::RcpLaw> {
    let capacity = Rate::from_bits_per_second(1_000_000_000).expect("a rate");
    let law = rcp::RcpLaw::new(
        rcp::RcpConfig::for_codes(),
        capacity.bytes_per_second(),
        now,
        Duration::from_millis(10),
    );
    let mut router = Router::new(RouterConfig::default(), queue, law, now);
    for _ in 0..WAITING {
        router.enqueue(now, packet.to_vec()).expect("well formed");
    }
    router
}

fn pass<Q: Queue<Packet>>(c: &mut Criterion, name: &str, queue: fn() -> Q) {
    let mut group = c.benchmark_group("router");
    group.throughput(Throughput::Elements(1));
    for (kind, dont_fragment) in [("whole", true), ("signalled", false)] {
        let packet = packet(dont_fragment);
        let mut now = Instant::now();
        let mut router = router(queue(), &packet, now);
        group.bench_function(format!("{name}/{kind}"), |b| {
            b.iter_batched(
                || packet.clone(),
                |packet| {
                    now += Duration::from_micros(12);
                    router.enqueue(now, packet).expect("well formed");
                    // A signalled packet leaves in two.
                    (router.dequeue(now), (!dont_fragment).then(|| router.dequeue(now)))
                },
                BatchSize::SmallInput,
            );
        });
        let stats = router.stats();
        assert_eq!((stats.dropped().packets, stats.signalled > 0), (0, !dont_fragment), "{stats:?}");
    }
    group.finish();
}

fn routers(c: &mut Criterion) {
    pass(c, "drop_tail", || DropTail::new(LIMIT));
    pass(c, "strict_priority", || StrictPriority::new(Levels::ladder(), LIMIT));
    pass(c, "fq_codel", || FqCodel::new(FqCodelConfig { limit: LIMIT, ..FqCodelConfig::default() }));
}

criterion_group!(benches, routers);
criterion_main!(benches);
