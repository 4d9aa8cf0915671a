//! Claims about a transfer between two hosts, played by two network namespaces. Needs root; skips itself
//! without.
//!
//! Each end is this test program, started again under `ip netns exec`, with its role in the variable [`ROLE`].
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod common;
#[path = "common/identity.rs"]
mod identity;
#[path = "common/netns.rs"]
mod netns;

use std::{env, sync::Arc};

use common::{SERVER_NAME, code, pattern, run, send};
use identity::{Identity, client_config, server_config};
use netns::{Namespaces, READY, play, skip::skipped};
use rc3_net::{ConnectionError, Endpoint, RlpMode, TransportConfig};

const ROLE: &str = "RC3_NETNS_TRANSPORT_ROLE";

const SENDER: &str = "10.84.0.1";
const RECEIVER_IP: &str = "10.84.0.2";
const RECEIVER: &str = "10.84.0.2:4433";
const BYTES: usize = 50_000_000;

#[test]
fn a_large_stream_crosses_a_link_whole_by_both_loops() {
    let Some(link) = Namespaces::new("transport", SENDER, RECEIVER_IP) else { return };
    let identity = Identity::new("transport");
    let role = |namespace, role| {
        let mut command = link.role(namespace, ROLE, role);
        identity.give(&mut command);
        command
    };
    play(role(&link.right, "receiver"), role(&link.left, "sender"));
}

/// Not a test: the program of the processes inside the namespaces.
#[test]
#[ignore = "started by the others inside a namespace"]
fn role() {
    match env::var(ROLE).as_deref() {
        Ok("sender") => run(be_sender()),
        Ok("receiver") => run(be_receiver()),
        _ => skipped("another test to start it"),
    }
}

async fn be_sender() {
    let endpoint = Endpoint::client(format!("{SENDER}:0").parse().unwrap()).unwrap();
    // With a clock RLP has little to do if a round trip takes no time.
    let mut transport = TransportConfig::default();
    transport.rlp(RlpMode::Trust);
    let mut config = client_config();
    config.transport_config(Arc::new(transport));
    let connecting = endpoint.connect_with(config, RECEIVER.parse().unwrap(), SERVER_NAME).unwrap();
    let connection = connecting.await.unwrap();
    assert!(connection.is_rc3());
    send(connection.open_uni().await.unwrap(), pattern(BYTES, 1)).await;
    connection.close_gracefully(code(0), b"").await.unwrap();
    endpoint.wait_idle().await;
    let levels = connection.stats().sent.levels;
    assert!(levels[1].packets > 0 && levels[2].packets > 0, "{levels:?}");
}

async fn be_receiver() {
    let config = server_config();
    let endpoint = Endpoint::server(config, RECEIVER.parse().unwrap()).unwrap();
    println!("{READY}");
    let connection = endpoint.accept().await.unwrap().await.unwrap();
    let mut stream = connection.accept_uni().await.unwrap();
    let got = stream.read_to_end(BYTES).await.unwrap();
    assert!(got == pattern(BYTES, 1), "{} bytes, or others than expected", got.len());
    assert!(matches!(connection.closed().await, ConnectionError::ApplicationClosed(_)));
    let received = connection.stats().received;
    assert!(received.rlp_bytes.iter().sum::<u64>() > 0, "{received:?}");
    if let Some(low) = endpoint.stats().low {
        assert!(low.received_datagrams > 0, "steered away from the primary's socket: {low:?}");
    }
}
