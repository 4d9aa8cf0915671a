//! Many connections at once.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Barrier,
    task::JoinSet,
};

use rc3::tunnel::CONNECTIONS_MAX;

use super::harness::{Client, Server, content, forward};

const CONNECTIONS: usize = 1000;
const BYTES: usize = 100_000;

/// Each connection of this process needs two descriptors.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    address
}

async fn exchange(address: SocketAddr, seed: u64, all_open: Arc<Barrier>) -> bool {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let bytes = content(seed, BYTES);
    // The first byte proves that the whole way is open.
    stream.write_all(&bytes[..1]).await.unwrap();
    let mut echoed = vec![stream.read_u8().await.unwrap()];
    all_open.wait().await;
    let (mut reader, mut writer) = stream.split();
    let writing = async {
        writer.write_all(&bytes[1..]).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let (_, read) = tokio::join!(writing, reader.read_to_end(&mut echoed));
    read.unwrap();
    echoed == bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_carry_every_byte() {
    raise_limit();
    let echo = echo().await;
    let (server, client) = tokio::task::spawn_blocking(move || {
        let server = Server::start(&[]);
        let client = Client::start(&server, &["-L", &forward(echo)]);
        (server, client)
    })
    .await
    .unwrap();
    let address = client.process.address();
    println!(
        "VmRSS at rest: listening {} kB, connecting {} kB",
        resident(&server.process),
        resident(&client.process)
    );
    let all_open = Arc::new(Barrier::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    for seed in 0..CONNECTIONS as u64 {
        connections.spawn(exchange(address, seed, Arc::clone(&all_open)));
    }
    let mut right = 0;
    while let Some(exchanged) = connections.join_next().await {
        right += usize::from(exchanged.unwrap());
    }
    println!(
        "{right} of {CONNECTIONS} connections right, {BYTES} bytes each way; VmRSS after: listening {} kB, connecting {} kB",
        resident(&server.process),
        resident(&client.process)
    );
    assert_eq!(right, CONNECTIONS);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_connection_that_a_tunnel_has_room_for_is_reported() {
    raise_limit();
    let echo = echo().await;
    let start = tokio::task::spawn_blocking(move || {
        let server = Server::start(&[]);
        let client = Client::start(&server, &["-L", &forward(echo)]);
        (server, client)
    });
    let (_server, client) = start.await.unwrap();
    let (address, mut idle) = (client.process.address(), Vec::new());
    for _ in 0..CONNECTIONS_MAX {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let line = tokio::task::spawn_blocking(move || client.process.line_with("others wait")).await.unwrap();
    assert!(line.starts_with(&format!("{CONNECTIONS_MAX} connections are open")), "{line}");
}

#[cfg(target_os = "linux")]
fn resident(process: &super::harness::Process) -> u64 {
    process.resident()
}

#[cfg(not(target_os = "linux"))]
fn resident(_process: &super::harness::Process) -> u64 {
    0
}
