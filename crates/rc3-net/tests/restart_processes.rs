//! The example `restart` in processes of its own: clients see no more of a restart than another process number.
//!
//! Each process is this test program, started again with the path of the socket in the variable [`PATH`].
#![cfg(all(target_os = "linux", not(rc3_portable)))]
#![forbid(unsafe_code)]

mod common;
#[path = "../examples/restart/server.rs"]
mod example;
#[path = "common/skip.rs"]
mod skip;

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use common::{code, pattern, run};
use rc3_net::{ClientConfig, Connection, Endpoint, rustls::RootCertStore};

const PATH: &str = "RC3_RESTART_PATH";

/// A process that serves.
struct Instance {
    child: Child,
    address: SocketAddr,
}

impl Instance {
    /// Starts one, and waits until it serves.
    fn start(path: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "role", "--ignored", "--nocapture"]).env(PATH, path).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let serves = format!("{} serves ", child.id());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| line.unwrap().split_once(&serves)?.1.parse().ok());
        // Keep reading, or it would fail to print.
        std::thread::spawn(move || lines.count());
        Self { child, address: address.expect("it ended before it served") }
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    /// As a crash.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it exits by itself.
    async fn exit(&mut self) {
        while self.child.try_wait().unwrap().is_none_or(|status| {
            assert!(status.success());
            false
        }) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: the program of the processes.
#[test]
#[ignore = "started by the other"]
fn role() {
    let Ok(path) = env::var(PATH) else { return skip::skipped("another test to start it") };
    run(async move { example::serve(Path::new(&path), "127.0.0.1:0".parse().unwrap()).await.unwrap() });
}

/// The process that has answered a request of `len` bytes.
async fn ask(connection: &Connection, len: usize) -> u32 {
    let request = pattern(len, len as u64);
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(&request).await.unwrap();
    send.finish().unwrap();
    let answer = recv.read_to_end(2 << 20).await.unwrap();
    let (id, echoed) = answer.split_at(answer.iter().position(|&byte| byte == b'\n').unwrap() + 1);
    assert!(echoed == request);
    std::str::from_utf8(id).unwrap().trim().parse().unwrap()
}

#[test]
fn clients_are_served_through_restarts_and_crashes() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("echo");
        let mut first = Instance::start(&path);
        let mut roots = RootCertStore::empty();
        roots.add(fs::read(path.with_extension("cert")).unwrap().into()).unwrap();
        let mut client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        client.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots)).unwrap());
        let address = first.address;
        let connect = async || client.connect(address, "localhost").unwrap().await.unwrap();

        let of_first = connect().await;
        assert_eq!(ask(&of_first, 1_000_000).await, first.id());
        // A client that connects all the time sees no failure.
        let connecting = tokio::spawn({
            let client = client.clone();
            async move {
                let mut ids = Vec::new();
                while ids.first() == ids.last() {
                    let connection = client.connect(address, "localhost").unwrap().await.unwrap();
                    ids.push(ask(&connection, 10_000).await);
                    connection.close(code(0), b"");
                }
                ids
            }
        });
        let path_of_second = path.clone();
        let mut second = tokio::task::spawn_blocking(move || Instance::start(&path_of_second)).await.unwrap();
        assert_eq!(second.address, address);
        let ids = connecting.await.unwrap();
        assert_eq!((ids.first(), ids.last()), (Some(&first.id()), Some(&second.id())));
        assert_eq!(ask(&of_first, 1_000_000).await, first.id());
        assert_eq!(ask(&connect().await, 1_000_000).await, second.id());

        // The new one crashes: the old one has the port again.
        second.kill();
        assert_eq!(ask(&of_first, 1_000_000).await, first.id());
        assert_eq!(ask(&connect().await, 1_000_000).await, first.id());

        // It listens for another successor again: this one changes its mind.
        while UnixStream::connect(&path).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut third = Instance::start(&path);
        assert_eq!(third.address, address);
        let of_third = connect().await;
        assert_eq!(ask(&of_third, 1_000_000).await, third.id());
        // The old one exits with its last connection. The client's others were dropped, which closes them.
        of_first.close(code(0), b"");
        first.exit().await;
        assert_eq!(ask(&of_third, 1_000_000).await, third.id());

        // The old one crashes: the new one goes on.
        let fourth = Instance::start(&path);
        let of_fourth = connect().await;
        assert_eq!(ask(&of_third, 10_000).await, third.id());
        third.kill();
        assert_eq!(ask(&of_fourth, 1_000_000).await, fourth.id());
        assert_eq!(ask(&connect().await, 1_000_000).await, fourth.id());
    });
}
