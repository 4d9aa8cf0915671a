//! Metrics agree with the counters. One test: a process has one recorder.
#![forbid(unsafe_code)]

mod common;

use std::collections::BTreeMap;

use common::{code, connect, endpoints, pattern, receive, run, send};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

#[test]
fn what_is_reported_is_what_the_connections_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let mut stats = None;
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| ());
        let (near, far) = connect(&client, &server).await;
        let data = pattern(5 << 20, 1);
        let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
        let receiving = async { receive(far.accept_uni().await.unwrap(), &data).await };
        tokio::join!(sending, receiving);
        near.close(code(0), b"");
        client.wait_idle().await;
        server.wait_idle().await;
        stats = Some((near.stats(), far.stats()));
    });
    let (near, far) = stats.unwrap();

    let mut totals = BTreeMap::<String, u64>::new();
    let mut round_trips = 0;
    for (key, unit, description, value) in snapshotter.snapshot().into_vec() {
        let name = key.key().name().to_owned();
        assert!(name.starts_with("rc3_"), "{name}");
        assert!(unit.is_some() && description.is_some(), "{name} is not described");
        match value {
            DebugValue::Counter(count) => *totals.entry(name).or_default() += count,
            DebugValue::Histogram(values) => round_trips += values.len(),
            DebugValue::Gauge(_) => {}
        }
    }
    let total = |name: &str| totals.get(name).copied().unwrap_or(0);
    assert_eq!(total("rc3_connections_closed"), 2);
    assert_eq!(round_trips, 2);
    assert_eq!(total("rc3_primary_sent_bytes"), near.sent.primary_bytes + far.sent.primary_bytes);
    assert_eq!(total("rc3_primary_sent_packets"), near.path.sent_packets + far.path.sent_packets);
    let levels = || near.sent.levels.iter().chain(&far.sent.levels);
    assert_eq!(total("rc3_rlp_sent_bytes"), levels().map(|level| level.bytes).sum::<u64>());
    assert_eq!(total("rc3_rlp_sent_packets"), levels().map(|level| level.packets).sum::<u64>());
    let brought: u64 = far.received.rlp_bytes.iter().sum();
    assert_eq!(total("rc3_rlp_received_bytes"), brought);
    assert_eq!(brought + total("rc3_primary_received_bytes"), 5 << 20);
    assert!(total("rc3_socket_sent_datagrams") > 0);
}
