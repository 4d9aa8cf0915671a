//! A thousand connections and ten thousand streams at once through one endpoint, within bounded memory.
#![forbid(unsafe_code)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{SERVER_NAME, code, endpoints, pattern};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinSet,
};

const CONNECTIONS: usize = 1000;
const STREAMS: usize = 10;

/// Bytes a stream carries before and after all of them are open.
const HALF: usize = 2000;

/// Handshakes at a time: with all at once, the last would only measure how slow the first are.
const HANDSHAKES: usize = 50;

/// Upper bound for both ends of a connection with its streams, in bytes of resident memory. Measured: 230 KB.
const BYTES_PER_CONNECTION_MAX: usize = 400_000;

/// A line of `/proc/self/status`, in bytes; `None` elsewhere than on Linux.
fn memory(name: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<usize>().ok()? * 1024)
}

#[test]
fn a_thousand_connections_with_ten_streams_each_are_all_served_at_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let patience = Duration::from_secs(300);
    runtime.block_on(async { tokio::time::timeout(patience, all_at_once()).await.expect("it hangs") });
}

async fn all_at_once() {
    let before = memory("VmRSS");
    let (client, server) = endpoints("127.0.0.1", |transport| {
        // A thousand closes at once overflow the socket; a lost close is detected by the idle timeout.
        transport.max_idle_timeout(Some(Duration::from_secs(10).try_into().unwrap()));
        transport.keep_alive_interval(Some(Duration::from_secs(3)));
    });
    let address = server.local_addr().unwrap();
    let (opened, mut open) = mpsc::unbounded_channel();
    let (go_on, gate) = watch::channel(false);

    let serving = tokio::spawn({
        let server = server.clone();
        async move {
            let mut tasks = JoinSet::new();
            for _ in 0..CONNECTIONS {
                let incoming = server.accept().await.unwrap();
                let opened = opened.clone();
                tasks.spawn(async move {
                    let connection = incoming.await.unwrap();
                    let mut streams = JoinSet::new();
                    for _ in 0..STREAMS {
                        let mut stream = connection.accept_uni().await.unwrap();
                        let opened = opened.clone();
                        streams.spawn(async move {
                            let mut first = vec![0; HALF];
                            stream.read_exact(&mut first).await.unwrap();
                            opened.send(()).unwrap();
                            let rest = stream.read_to_end(HALF).await.unwrap();
                            [first, rest].concat()
                        });
                    }
                    let mut got = streams.join_all().await;
                    got.sort();
                    connection.closed().await;
                    got
                });
            }
            tasks.join_all().await
        }
    });

    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    let mut clients = JoinSet::new();
    for number in 0..CONNECTIONS {
        let (client, handshakes, mut gate) = (client.clone(), handshakes.clone(), gate.clone());
        clients.spawn(async move {
            let permit = handshakes.acquire().await.unwrap();
            let connection = client.connect(address, SERVER_NAME).unwrap().await.unwrap();
            drop(permit);
            let mut streams = Vec::new();
            for nth in 0..STREAMS {
                let data = pattern(2 * HALF, (number * STREAMS + nth) as u64);
                let mut stream = connection.open_uni().await.unwrap();
                stream.write_all(&data[..HALF]).await.unwrap();
                streams.push((stream, data));
            }
            gate.wait_for(|open| *open).await.unwrap();
            for (stream, data) in &mut streams {
                stream.write_all(&data[HALF..]).await.unwrap();
                stream.finish().unwrap();
            }
            for (stream, _) in &streams {
                assert_eq!(stream.stopped().await, Ok(None), "delivered whole");
            }
            connection.close(code(0), b"");
            let mut sent: Vec<_> = streams.into_iter().map(|(_, data)| data).collect();
            sent.sort();
            sent
        });
    }

    for _ in 0..CONNECTIONS * STREAMS {
        open.recv().await.unwrap();
    }
    assert_eq!((client.open_connections(), server.open_connections()), (CONNECTIONS, CONNECTIONS));
    let then = memory("VmRSS");
    go_on.send(true).unwrap();
    let mut sent = clients.join_all().await;
    let mut got = serving.await.unwrap();
    sent.sort();
    got.sort();
    assert!(sent == got, "not what was sent");
    client.wait_idle().await;
    server.wait_idle().await;
    assert_eq!((client.open_connections(), server.open_connections()), (0, 0));

    if let (Some(before), Some(then), Some(peak)) = (before, then, memory("VmHWM")) {
        println!("resident: {before} bytes before, {then} with all streams open, {peak} at most");
        assert!(peak - before < CONNECTIONS * BYTES_PER_CONNECTION_MAX, "{peak} bytes");
    }
}
