//! Attempts to keep other senders out.

use std::{
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use rc3::transfer::{
    identity::{self, SERVER_NAME},
    message::{ALPN, EARLY_FILES_MAX},
    ticket::Ticket,
};
use rc3_net::{ClientConfig, Connection, Endpoint, RlpMode, TransportConfig};
use tokio::runtime::Runtime;

use super::{harness::*, hostile_sender::Intruder};

/// A connection to the receiver that shows no ticket.
pub(crate) async fn silent(ticket: &Ticket, from: IpAddr) -> Option<(Endpoint, Connection)> {
    silent_in(ticket, from, RlpMode::Guard).await
}

async fn silent_in(ticket: &Ticket, from: IpAddr, mode: RlpMode) -> Option<(Endpoint, Connection)> {
    let mut transport = TransportConfig::default();
    transport.rlp(mode);
    let endpoint = Endpoint::client(SocketAddr::new(from, 0)).expect("a socket");
    let crypto = identity::client(Some(ticket.fingerprint()), ALPN).expect("settings");
    let to = SocketAddr::new(ticket.host().parse().expect("an address"), ticket.port());
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    let connecting = endpoint.connect_with(config, to, SERVER_NAME).ok()?;
    let connection = tokio::time::timeout(Duration::from_secs(2), connecting).await.ok()?.ok()?;
    Some((endpoint, connection))
}

/// Keeps `most` silent connections open from each address, replacing closed ones.
fn besiege(runtime: &Runtime, ticket: &str, addresses: u8, most: usize) {
    let ticket: Ticket = ticket.parse().expect("a ticket");
    let connected = Arc::<AtomicUsize>::default();
    for address in 1..=addresses {
        for _ in 0..most {
            let (ticket, connected) = (ticket.clone(), Arc::clone(&connected));
            runtime.spawn(async move {
                loop {
                    if let Some((_endpoint, connection)) =
                        silent(&ticket, Ipv4Addr::new(127, 0, 0, address).into()).await
                    {
                        connected.fetch_add(1, Relaxed);
                        connection.closed().await;
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            });
        }
    }
    // Until that many have connected.
    let there = || connected.load(Relaxed) >= usize::from(addresses) * most;
    wait_until("too few connect", there);
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
    // As many silent senders as are served at once, and as many waiting ones as allowed, less one.
    let first: Vec<_> = (0..4).map(|_| runtime.block_on(Intruder::meet(&receiver.ticket))).collect();
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
    // Reads until that event; without it the sender would come to its end.
    let wait_for = |sender: &mut std::process::Child, event: &str| {
        let mut lines = BufReader::new(sender.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == event), "no {event}");
        lines
    };
    let mut patient = sender();
    let waits = wait_for(&mut patient, r#"{"event":"waiting","receiver":"another_transfer"}"#);
    let mut rejected = sender();
    let retries =
        wait_for(&mut rejected, r#"{"event":"retrying","reason":"the other side is busy","seconds":1.0}"#);
    drop((first, waiting));
    for (mut sender, lines) in [(patient, waits), (rejected, retries)] {
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        assert!(rest.iter().any(|line| line.contains(r#""event":"done""#)), "{rest:?}");
        assert!(sender.wait().unwrap().success());
    }
}

/// Connections without the ticket that send as much as allowed, though nobody reads it.
#[test]
#[cfg(target_os = "linux")]
fn connections_without_a_ticket_cost_bounded_memory() {
    const MIB: u64 = 1 << 20;
    let to = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(to.path(), &["--keep"]);
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", receiver.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("resident memory");
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    let before = resident();
    let runtime = Runtime::new().unwrap();
    let ticket: Ticket = receiver.ticket.parse().expect("a ticket");
    for address in 1..=8 {
        for _ in 0..4 {
            let ticket = ticket.clone();
            runtime.spawn(async move {
                let from = Ipv4Addr::new(127, 0, 0, address).into();
                let (_endpoint, connection) = silent_in(&ticket, from, RlpMode::Trust).await?;
                connection.set_send_window(64 * MIB);
                let mut streams = Vec::new();
                for _ in 1..EARLY_FILES_MAX {
                    let mut stream = connection.open_uni().await.ok()?;
                    stream.write_chunk(vec![7].into()).await.ok()?;
                    streams.push(stream);
                }
                let mut stream = connection.open_uni().await.ok()?;
                stream.write_chunk(vec![7; 64 * MIB as usize].into()).await.ok()?;
                Some(connection.closed().await)
            });
        }
    }
    let mut most = 0;
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(100));
        most = most.max(resident());
    }
    let grown = (most - before) / MIB;
    println!("{grown} MiB for 32 connections without a ticket");
    assert!(grown < 400, "{grown} MiB");
}
