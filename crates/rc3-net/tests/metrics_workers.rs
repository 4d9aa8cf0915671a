//! Metrics of endpoints with several workers agree with their counters, also after a restart. One test: a process has one recorder.
#![cfg(all(target_os = "linux", not(rc3_portable), feature = "metrics"))]
#![forbid(unsafe_code)]

mod common;

use std::time::Duration;

use common::{SERVER_NAME, code, configs, connect, pattern, receive, run, send};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use rc3_net::{Endpoint, EndpointOptions, RlpMode};
use tokio::net::UnixStream;

/// Connections with early data, whose ids lead to any worker.
const ROUNDS: u64 = 40;

#[test]
fn what_workers_report_as_handed_over_is_what_their_endpoints_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let mut counted = None;
    run(async {
        // Of a known path half of what it holds leaves early: no packet on loopback.
        let (client_config, server_config) = configs(|transport| _ = transport.rlp(RlpMode::Trust));
        let any = "127.0.0.1:0".parse().unwrap();
        let options = EndpointOptions { workers: 3, ..EndpointOptions::default() };
        let server = Endpoint::bind(options.clone(), Some(server_config.clone()), any).unwrap();
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
        let (near, far) = connect(&client, &server).await;
        let (to_new, to_old) = UnixStream::pair().unwrap();
        let taking = Endpoint::take_over(options, Some(server_config), to_old);
        let (_successor, new) = tokio::try_join!(server.hand_over(to_new), taking).unwrap();
        let data = pattern(600_000, 1);
        let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
        let receiving = async { receive(far.accept_uni().await.unwrap(), &data).await };
        tokio::join!(sending, receiving);
        near.close(code(0), b"");
        client.wait_idle().await;
        server.wait_idle().await;
        let (old, new) = (server.stats(), new.stats());
        let mut handed_over = old.handed_over;
        handed_over += new.handed_over;
        counted = Some([handed_over, new.to_predecessor, old.from_successor]);
    });
    let counted = counted.unwrap();
    assert!(counted[0].rlp > 0, "some early data has an id that leads to another worker");
    assert!(counted[1].primary > 0 && counted[1].rlp > 0 && counted[2].primary > 0);

    let mut reported = [0; 8];
    for (key, unit, description, value) in snapshotter.snapshot().into_vec() {
        let DebugValue::Counter(count) = value else { continue };
        let labels: Vec<_> = key.key().labels().map(|label| label.value().to_owned()).collect();
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        let place = match (key.key().name(), &labels[..]) {
            ("rc3_handed_over_datagrams", ["primary"]) => 0,
            ("rc3_handed_over_datagrams", ["rlp"]) => 1,
            ("rc3_handed_over_dropped_datagrams", []) => 2,
            ("rc3_detoured_datagrams", ["primary", "to_predecessor"]) => 3,
            ("rc3_detoured_datagrams", ["rlp", "to_predecessor"]) => 4,
            ("rc3_detoured_dropped_datagrams", []) => 5,
            ("rc3_detoured_datagrams", ["primary", "from_successor"]) => 6,
            ("rc3_detoured_datagrams", ["rlp", "from_successor"]) => 7,
            (other, _) => {
                assert!(
                    !other.contains("handed_over") && !other.contains("detour"),
                    "{other} with {labels:?}"
                );
                continue;
            }
        };
        assert!(unit.is_some() && description.is_some(), "{key:?} is not described");
        reported[place] += count;
    }
    let [handed_over, to, from] = counted;
    assert_eq!(reported[..3], [handed_over.primary, handed_over.rlp, handed_over.dropped]);
    assert_eq!(reported[3..], [to.primary, to.rlp, to.dropped, from.primary, from.rlp]);
}
