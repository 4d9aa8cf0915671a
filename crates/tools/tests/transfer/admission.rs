//! Who keeps others from being let in.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rc3_net::{ClientConfig, Connection, Endpoint};
use rc3_tools::transfer::{
    identity::{self, SERVER_NAME},
    message::ALPN,
    ticket::Ticket,
};
use tokio::runtime::Runtime;

use crate::{harness::*, hostile_sender::Intruder};

/// A connection to the receiver that shows no ticket.
pub(crate) async fn silent(ticket: &Ticket, from: IpAddr) -> Option<(Endpoint, Connection)> {
    let endpoint = Endpoint::client(SocketAddr::new(from, 0)).expect("a socket");
    let crypto = identity::client(ticket.fingerprint(), ALPN).expect("settings");
    let to = SocketAddr::new(ticket.host().parse().expect("an address"), ticket.port());
    let connecting = endpoint.connect_with(ClientConfig::new(Arc::new(crypto)), to, SERVER_NAME).ok()?;
    let connection = tokio::time::timeout(Duration::from_secs(2), connecting).await.ok()?.ok()?;
    Some((endpoint, connection))
}

/// Keeps `most` silent connections open from each address: where one is closed, another takes its place.
fn besiege(runtime: &Runtime, ticket: &str, addresses: u8, most: usize) {
    let ticket: Ticket = ticket.parse().expect("a ticket");
    for address in 1..=addresses {
        for _ in 0..most {
            let ticket = ticket.clone();
            runtime.spawn(async move {
                loop {
                    if let Some((_endpoint, connection)) =
                        silent(&ticket, Ipv4Addr::new(127, 0, 0, address).into()).await
                    {
                        connection.closed().await;
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            });
        }
    }
    // Until they are there.
    std::thread::sleep(Duration::from_secs(2));
}

fn file_arrives_despite(addresses: u8, most: usize) {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    std::fs::write(&file, content(100_000)).unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let runtime = Runtime::new().unwrap();
    besiege(&runtime, &receiver.ticket, addresses, most);
    let output = send(&receiver.ticket, &[&file], &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    assert!(std::fs::read(to.path().join("file")).unwrap() == content(100_000));
}

#[test]
fn silent_connections_from_one_address_lock_nobody_out() {
    file_arrives_despite(1, 40);
}

#[test]
fn silent_connections_from_many_addresses_lock_nobody_out() {
    file_arrives_despite(40, 2);
}

#[test]
fn senders_wait_for_their_turn_or_try_again_and_say_so() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    std::fs::write(&file, content(100_000)).unwrap();
    let receiver = Receiver::start(to.path(), &["--keep"]);
    let runtime = Runtime::new().unwrap();
    // One whose turn it is and that says no more, and as many as may wait.
    let first = runtime.block_on(Intruder::meet(&receiver.ticket));
    std::thread::sleep(Duration::from_millis(500));
    let waiting: Vec<_> = (0..15).map(|_| runtime.block_on(Intruder::meet(&receiver.ticket))).collect();
    std::thread::sleep(Duration::from_millis(500));
    let sender = || {
        let mut command = rc3();
        command
            .args(["send", "--json"])
            .arg(&file)
            .arg(&receiver.ticket)
            .stdout(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let patient = sender();
    std::thread::sleep(Duration::from_secs(1));
    let rejected = sender();
    std::thread::sleep(Duration::from_secs(6));
    drop((first, waiting));
    let events = |output: std::process::Output| String::from_utf8(output.stdout).unwrap();
    let patient = events(patient.wait_with_output().unwrap());
    assert!(patient.contains(r#"{"event":"waiting","receiver":"another_transfer"}"#), "{patient}");
    assert!(patient.contains(r#""event":"done""#), "{patient}");
    let rejected = events(rejected.wait_with_output().unwrap());
    assert!(rejected.contains(r#"{"event":"retrying","seconds":1.0}"#), "{rejected}");
    assert!(rejected.contains(r#""event":"done""#), "{rejected}");
}
