//! Claims about a transfer between two hosts, played by two network namespaces. Needs root; skips itself
//! without.
//!
//! Each end is this very test program, started again under `ip netns exec` and told by [`ROLE`] what to do.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod common;

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio, id},
    sync::Arc,
};

use common::{PATIENCE, SERVER_NAME, code, pattern, run, send};
use rc3_net::{
    ClientConfig, ConnectionError, Endpoint, ServerConfig,
    rustls::{self, pki_types::PrivateKeyDer},
};

const ROLE: &str = "RC3_NETNS_TRANSPORT_ROLE";
const IDENTITY: &str = "RC3_NETNS_TRANSPORT_IDENTITY";
const READY: &str = "ready";

const SENDER: &str = "10.84.0.1";
const RECEIVER: &str = "10.84.0.2:4433";
const BYTES: usize = 50_000_000;

#[test]
fn a_large_stream_crosses_a_link_whole_by_both_loops() {
    let Some(link) = Link::new() else { return };
    let mut receiver =
        link.role("receiver", &link.right).stdout(Stdio::piped()).spawn().expect("the receiving end");
    let mut lines = BufReader::new(receiver.stdout.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains(READY) {
        said.clear();
        assert_ne!(lines.read_line(&mut said).unwrap(), 0, "the receiver ended before it was ready");
    }
    let sender = link.role("sender", &link.left).output().expect("the sending end");
    // Read on, or the receiver would block on its pipe.
    let rest: String = lines.lines().map_while(Result::ok).collect::<Vec<_>>().join("\n");
    let receiver = receiver.wait().expect("its end");
    assert!(sender.status.success(), "sender: {}", text(&sender));
    assert!(receiver.success(), "receiver: {rest}");
}

/// Not a test of its own: what the processes inside the namespaces run.
#[test]
#[ignore = "started by the others inside a namespace"]
fn role() {
    match env::var(ROLE).as_deref() {
        Ok("sender") => run(be_sender()),
        Ok("receiver") => run(be_receiver()),
        _ => println!("skipped: not started by another test"),
    }
}

async fn be_sender() {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(read("cert").into()).unwrap();
    let crypto = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let endpoint = Endpoint::client(format!("{SENDER}:0").parse().unwrap()).unwrap();
    let config = ClientConfig::new(Arc::new(crypto));
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
    let key = PrivateKeyDer::Pkcs8(read("key").into());
    let crypto = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![read("cert").into()], key)
        .unwrap();
    let config = ServerConfig::with_crypto(Arc::new(crypto));
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

fn read(name: &str) -> Vec<u8> {
    fs::read(Path::new(&env::var(IDENTITY).unwrap()).join(name)).unwrap()
}

/// Two namespaces joined by a veth pair and a certificate for both ends; gone when dropped, by panic or not.
struct Link {
    left: String,
    right: String,
    identity: PathBuf,
}

impl Link {
    /// The link, or `None` with a line that says why not.
    fn new() -> Option<Self> {
        let link = Self {
            left: format!("rc3-transport-left-{}", id()),
            right: format!("rc3-transport-right-{}", id()),
            identity: env::temp_dir().join(format!("rc3-transport-{}", id())),
        };
        for name in [&link.left, &link.right] {
            match Command::new("ip").args(["netns", "add", name]).output() {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    println!("skipped: no right to make network namespaces: {}", text(&output));
                    return None;
                }
                Err(error) => {
                    println!("skipped: cannot run ip: {error}");
                    return None;
                }
            }
        }
        let (left, right) = (&link.left, &link.right);
        ip(&format!("-n {left} link add veth0 type veth peer name veth0 netns {right}"));
        for (name, address) in [(left, SENDER), (right, "10.84.0.2")] {
            ip(&format!("-n {name} addr add {address}/24 dev veth0"));
            ip(&format!("-n {name} link set veth0 up"));
        }
        let certified = rcgen::generate_simple_self_signed([SERVER_NAME.to_string()]).unwrap();
        fs::create_dir(&link.identity).unwrap();
        fs::write(link.identity.join("cert"), certified.cert.der()).unwrap();
        fs::write(link.identity.join("key"), certified.signing_key.serialize_der()).unwrap();
        Some(link)
    }

    /// This program again, inside a namespace.
    fn role(&self, role: &str, namespace: &str) -> Command {
        let mut command = Command::new("timeout");
        command
            .arg((2 * PATIENCE).as_secs().to_string())
            .args(["ip", "netns", "exec", namespace])
            .arg(env::current_exe().expect("this program"))
            .args(["--exact", "role", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .env(IDENTITY, &self.identity);
        command
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for name in [&self.left, &self.right] {
            // One that was never made is no matter.
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
        let _ = fs::remove_dir_all(&self.identity);
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip has just run");
    assert!(output.status.success(), "ip {arguments}: {}", text(&output));
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
