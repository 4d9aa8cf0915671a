//! What a byte costs in the machines alone: 64 MB through two endpoints, both ends together, with neither kernel nor
//! network nor runtime between them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rc3_core::{
    ConnectionHandle, DatagramMeta, Dir, Endpoint, EndpointEvent, Event, RlpMode, StreamId, Transmit,
    TransportConfig,
};
use rc3_sim::identity::{SERVER_NAME, identity};

const BYTES: usize = 64_000_000;
const WRITE: usize = 1 << 20;
const SEGMENTS: usize = 44;
/// Batches of each loop in one round, as in a driver.
const BATCHES: usize = 4;
/// What a round takes in virtual time.
const ROUND: Duration = Duration::from_micros(200);

struct Node {
    endpoint: Endpoint,
    meta: DatagramMeta,
    buf: Vec<u8>,
}

impl Node {
    fn send(&mut self, now: Instant, to: &mut Endpoint) {
        for _ in 0..BATCHES {
            self.buf.clear();
            let Some(transmit) = self.endpoint.poll_primary(now, SEGMENTS, &mut self.buf) else { break };
            deliver(now, self.meta, &transmit, &self.buf, to);
        }
        for _ in 0..BATCHES {
            self.buf.clear();
            let Some(transmit) = self.endpoint.poll_rlp(now, SEGMENTS, &mut self.buf) else { break };
            deliver(now, self.meta, &transmit, &self.buf, to);
        }
    }

    fn timeout(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|deadline| deadline <= now) {
            self.endpoint.handle_timeout(now);
        }
    }
}

fn deliver(now: Instant, meta: DatagramMeta, transmit: &Transmit, batch: &[u8], to: &mut Endpoint) {
    let mut rest = BytesMut::from(batch);
    let segment = transmit.segment_size.unwrap_or(transmit.size);
    let datagrams = std::iter::from_fn(|| {
        let len = segment.min(rest.len());
        (len > 0).then(|| (meta, rest.split_to(len)))
    });
    to.handle_datagrams(now, datagrams);
}

fn node(endpoint: Endpoint, host: u8) -> Node {
    let meta = DatagramMeta {
        remote: ([10, 0, 0, host], 4433).into(),
        local_ip: None,
        ecn: 0,
        leading_len: None,
        arrived: None,
    };
    Node { endpoint, meta, buf: Vec::new() }
}

fn bulk(rlp: RlpMode) {
    let mut transport = TransportConfig::default();
    transport.rlp(rlp).initial_mtu(1452).mtu_discovery(false);
    let transport = Arc::new(transport);
    let (mut client_config, mut server_config) = identity(&["bulk"]);
    client_config.transport_config(transport.clone());
    server_config.transport_config(transport);
    let mut client = node(Endpoint::new(None, Some([1; 32])).expect("TLS settings that work"), 1);
    let server = Endpoint::new(Some(&server_config), Some([2; 32])).expect("TLS settings that work");
    let mut server = node(server, 2);

    let mut now = Instant::now();
    let handle = client
        .endpoint
        .connect(now, &client_config, server.meta.remote, SERVER_NAME)
        .expect("settings that work");
    let block = Bytes::from(vec![7; WRITE]);
    let mut stream: Option<StreamId> = None;
    let (mut left, mut received) = (BYTES, 0);
    while received < BYTES {
        now += ROUND;
        client.timeout(now);
        server.timeout(now);
        client.endpoint.with_connection(now, handle, |connection| {
            stream = stream.or_else(|| connection.open(Dir::Uni));
            let Some(stream) = stream else { return };
            while left > 0 {
                let Ok(taken) = connection.write(stream, block.slice(..left.min(WRITE))) else { return };
                left -= taken;
            }
        });
        client.send(now, &mut server.endpoint);
        while let Some(event) = server.endpoint.poll_event() {
            match event {
                EndpointEvent::Incoming(incoming) => {
                    server.endpoint.accept(now, incoming).expect("a handshake that works");
                }
                EndpointEvent::Connection(handle, Event::Readable(id)) => {
                    received += read(&mut server.endpoint, now, handle, id);
                }
                EndpointEvent::Connection(handle, Event::Opened(dir)) => {
                    let accepted =
                        server.endpoint.with_connection(now, handle, |connection| connection.accept(dir));
                    if let Some(id) = accepted.flatten() {
                        received += read(&mut server.endpoint, now, handle, id);
                    }
                }
                EndpointEvent::Connection(..) | EndpointEvent::Drained(_) | EndpointEvent::Learned(_) => {}
            }
        }
        server.send(now, &mut client.endpoint);
        while client.endpoint.poll_event().is_some() {}
    }
}

fn read(endpoint: &mut Endpoint, now: Instant, handle: ConnectionHandle, id: StreamId) -> usize {
    endpoint
        .with_connection(now, handle, |connection| {
            let mut total = 0;
            while let Ok(Some(chunk)) = connection.read(id, usize::MAX, true) {
                total += chunk.bytes.len();
            }
            total
        })
        .unwrap_or_default()
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("bulk of 64 MB");
    group.sample_size(10).throughput(Throughput::Bytes(BYTES as u64));
    for (name, rlp) in [("plain", RlpMode::Off), ("rc3", RlpMode::Trust)] {
        group.bench_function(name, |b| b.iter(|| bulk(rlp)));
    }
    group.finish();
}

criterion_group!(bulk_benches, benches);
criterion_main!(bulk_benches);
