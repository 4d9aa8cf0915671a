//! A client in one network namespace that forges the address of another host, and a server in another: what that
//! host is sent, on real sockets. Needs root; skips itself otherwise.
//!
//! Each end is this test program, started again under `ip netns exec`, with its role in the variable [`ROLE`].
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod common;
#[path = "common/identity.rs"]
mod identity;
#[path = "common/netns.rs"]
mod netns;

use std::{
    env,
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use common::{SERVER_NAME, run};
use identity::{Identity, client_config, server_config};
use netns::{Namespaces, READY, ip, play, skip::skipped};
use rc3_net::{Endpoint, RlpMode, TransportConfig};

const ROLE: &str = "RC3_NETNS_AMPLIFICATION_ROLE";
const MODE: &str = "RC3_NETNS_AMPLIFICATION_MODE";

const CLIENT: &str = "10.85.0.1";
const VICTIM: &str = "10.85.0.9";
const SERVER_IP: &str = "10.85.0.2";
const SERVER: &str = "10.85.0.2:4433";
/// What the server sends on the second request.
const BYTES: usize = 30_000_000;

#[test]
fn an_address_that_a_client_makes_up_is_not_flooded() {
    // Each run waits seconds for what the server sends, so the modes run side by side.
    thread::scope(|scope| {
        for mode in ["guard", "trust", "off"] {
            scope.spawn(move || attack(mode));
        }
    });
}

fn attack(mode: &str) {
    let test = format!("amplification-{mode}");
    let Some(link) = Namespaces::new(&test, CLIENT, SERVER_IP) else { return };
    ip(&format!("-n {} addr add {VICTIM}/24 dev veth0", link.left));
    ip(&format!("-n {} link set lo up", link.left));
    let identity = Identity::new(&test);
    let role = |namespace, role| {
        let mut command = link.role(namespace, ROLE, role);
        identity.give(&mut command);
        command.env(MODE, mode);
        command
    };
    play(role(&link.right, "server"), role(&link.left, "client"));
}

/// Not a test: the program of the processes inside the namespaces.
#[test]
#[ignore = "started by the others inside a namespace"]
fn role() {
    match env::var(ROLE).as_deref() {
        Ok("client") => run(be_client()),
        Ok("server") => run(be_server()),
        _ => skipped("another test to start it"),
    }
}

fn transport() -> (Arc<TransportConfig>, RlpMode) {
    let mode = match env::var(MODE).as_deref() {
        Ok("trust") => RlpMode::Trust,
        Ok("off") => RlpMode::Off,
        _ => RlpMode::Guard,
    };
    let mut transport = TransportConfig::default();
    transport.rlp(mode);
    (Arc::new(transport), mode)
}

/// Relays between the client and the server; from some moment on it forges the victim's address once.
#[derive(Default)]
struct Orders {
    forge: AtomicBool,
    stop: AtomicBool,
    /// Bytes of UDP payload from the victim's address and to it.
    forged: AtomicU64,
    received: AtomicU64,
}

fn relay(front: &UdpSocket, orders: &Orders) {
    let socket = |address: &str| {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let (own, victim) = (socket(CLIENT), socket(VICTIM));
    let (mut client, mut buf) = (None, vec![0; 65_536]);
    while !orders.stop.load(Relaxed) {
        while let Ok((len, from)) = front.recv_from(&mut buf) {
            client = Some(from);
            match orders.forge.load(Relaxed) {
                false => drop(own.send_to(&buf[..len], SERVER)),
                // Once, then silence.
                true if orders.forged.load(Relaxed) == 0 => {
                    victim.send_to(&buf[..len], SERVER).unwrap();
                    orders.forged.store(len as u64, Relaxed);
                }
                true => {}
            }
        }
        while let Ok((len, _)) = own.recv_from(&mut buf) {
            if let Some(client) = client.filter(|_| !orders.forge.load(Relaxed)) {
                let _ = front.send_to(&buf[..len], client);
            }
        }
        while let Ok((len, _)) = victim.recv_from(&mut buf) {
            orders.received.fetch_add(len as u64, Relaxed);
        }
        thread::sleep(Duration::from_micros(100));
    }
}

async fn be_client() {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    front.set_nonblocking(true).unwrap();
    let address = front.local_addr().unwrap();
    let orders = Arc::<Orders>::default();
    let theirs = orders.clone();
    let relay = thread::spawn(move || relay(&front, &theirs));

    let (transport, mode) = transport();
    let mut config = client_config();
    config.transport_config(transport);
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connection = endpoint.connect_with(config, address, SERVER_NAME).unwrap().await.unwrap();
    assert_eq!(connection.is_rc3(), mode != RlpMode::Off);
    let (mut ask, mut answer) = connection.open_bi().await.unwrap();
    ask.write_all(b"a little").await.unwrap();
    let mut some = vec![0; 100_000];
    answer.read_exact(&mut some).await.unwrap();
    // Pending data has been acknowledged.
    tokio::time::sleep(Duration::from_millis(200)).await;

    orders.forge.store(true, Relaxed);
    ask.write_all(b"all of it").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    orders.stop.store(true, Relaxed);
    relay.join().unwrap();
    let (forged, received) = (orders.forged.load(Relaxed), orders.received.load(Relaxed));
    println!("{mode:?}: {received} bytes at the victim for {forged}");
    assert!(forged > 0, "nothing was forged");
    assert!(received <= 3 * forged, "{mode:?}: {received} bytes at the victim for {forged}");
}

async fn be_server() {
    let mut config = server_config();
    config.transport_config(transport().0);
    let endpoint = Endpoint::server(config, SERVER.parse().unwrap()).unwrap();
    println!("{READY}");
    let connection = endpoint.accept().await.unwrap().await.unwrap();
    let (mut send, mut recv) = connection.accept_bi().await.unwrap();
    let mut request = [0; 8];
    recv.read_exact(&mut request).await.unwrap();
    send.write_all(&vec![1; 100_000]).await.unwrap();
    // Until the attack on the client, which stays silent, is over.
    let serve = async {
        if recv.read_exact(&mut request).await.is_ok() {
            let _ = send.write_all(&vec![2; BYTES]).await;
        }
        connection.closed().await
    };
    let _ = tokio::time::timeout(Duration::from_secs(5), serve).await;
}
