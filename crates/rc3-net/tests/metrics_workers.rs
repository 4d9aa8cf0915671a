//! Metrics of an endpoint with several workers agree with its counters. One test: a process has one recorder.
#![cfg(all(target_os = "linux", feature = "metrics"))]
#![forbid(unsafe_code)]

mod common;

use std::time::Duration;

use common::{SERVER_NAME, code, configs, pattern, receive, run, send};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use rc3_net::{Endpoint, EndpointOptions};

/// Connections with early data, whose ids lead to any worker.
const ROUNDS: u64 = 40;

#[test]
fn what_workers_report_as_handed_over_is_what_their_endpoint_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let mut counted = None;
    run(async {
        let (client_config, server_config) = configs(|_| ());
        let any = "127.0.0.1:0".parse().unwrap();
        let options = EndpointOptions { workers: 3, ..EndpointOptions::default() };
        let server = Endpoint::bind(options, Some(server_config), any).unwrap();
        let mut client = Endpoint::client(any).unwrap();
        client.set_default_client_config(client_config);
        for round in 0..ROUNDS {
            let data = pattern(60_000, round);
            let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
            let accepting = async {
                let connection = server.accept().await.unwrap().await.unwrap();
                receive(connection.accept_uni().await.unwrap(), &data).await;
                connection
            };
            let sending = async {
                let connection = match connecting.into_0rtt() {
                    Ok((connection, _)) => connection,
                    Err(connecting) => connecting.await.unwrap(),
                };
                send(connection.open_uni().await.unwrap(), data.clone()).await;
                // The ticket of the next connection.
                tokio::time::sleep(Duration::from_millis(5)).await;
                connection
            };
            let (_accepted, connection) = tokio::join!(accepting, sending);
            connection.close(code(0), b"");
        }
        client.wait_idle().await;
        server.wait_idle().await;
        counted = Some(server.stats().handed_over);
    });
    let counted = counted.unwrap();
    assert!(counted.rlp > 0, "some early data has an id that leads to another worker");

    let mut reported = [0; 3];
    for (key, unit, description, value) in snapshotter.snapshot().into_vec() {
        let DebugValue::Counter(count) = value else { continue };
        let label = key.key().labels().next().map(|label| label.value().to_owned());
        let place = match (key.key().name(), label.as_deref()) {
            ("rc3_handed_over_datagrams", Some("primary")) => 0,
            ("rc3_handed_over_datagrams", Some("rlp")) => 1,
            ("rc3_handed_over_dropped_datagrams", None) => 2,
            (other, _) => {
                assert!(!other.contains("handed_over"), "{other} with {label:?}");
                continue;
            }
        };
        assert!(unit.is_some() && description.is_some(), "{key:?} is not described");
        reported[place] += count;
    }
    assert_eq!(reported, [counted.primary, counted.rlp, counted.dropped]);
}
