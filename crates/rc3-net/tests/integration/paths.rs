//! The endpoints' memory of paths, in a file.
use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::common::{SERVER_NAME, configs};
use rc3_net::{Endpoint, EndpointOptions, Verdict, paths::PathMemory};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The server's and the client's view of a new connection between endpoints; the client uses `memory`.
async fn begun(memory: &Path) -> (Option<rc3_net::GuardStats>, Option<bool>) {
    let (client_config, server_config) = configs(|_| {});
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = Endpoint::server(server_config, any).unwrap();
    let options =
        EndpointOptions { path_memory: Some(PathMemory::open(memory)), ..EndpointOptions::default() };
    let client = Endpoint::bind(options, None, any).unwrap();
    let connecting = client.connect_with(client_config, server.local_addr().unwrap(), SERVER_NAME).unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, _accepted) = tokio::join!(connecting, accepting);
    let stats = connected.unwrap().stats();
    (stats.guard, stats.clock.map(|clock| clock.remembered))
}

#[tokio::test]
async fn a_connection_begins_with_what_the_file_knows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("paths");
    let line = |at| format!("127.0.0.1 from=127.0.0.1 at={at} score=-12 rate=50000000 rtt_us=900\n");
    fs::write(&path, line(now() - 3600)).unwrap();
    let (guard, remembered) = begun(&path).await;
    assert_eq!(guard.map(|guard| (guard.verdict, guard.remembered)), Some((Verdict::Honoured, true)));
    assert_eq!(remembered, Some(true));
    // Of another destination from the same network: a rate to start with, no verdict.
    fs::write(
        &path,
        line(now() - 3600).replacen("127.0.0.1 ", "198.51.100.7 ", 1).replace("us=900", "us=90000"),
    )
    .unwrap();
    let (guard, remembered) = begun(&path).await;
    assert_eq!((guard.map(|guard| guard.remembered), remembered), (Some(false), Some(true)));
    // Too old, from the future, of another network, so slow that it is no help, of an unspecified destination.
    for text in [
        line(now() - 90_000),
        line(now() + 3600),
        line(now()).replace("from=127.0.0.1", "from=10.0.0.3"),
        line(now()).replacen("127.0.0.1 ", "127.0.0.2 ", 1).replace("50000000", "5000000"),
        "\u{feff}\u{0}=".to_owned(),
    ] {
        fs::write(&path, &text).unwrap();
        let (guard, remembered) = begun(&path).await;
        assert_eq!((guard.map(|guard| guard.remembered), remembered), (Some(false), Some(false)), "{text}");
    }
}

/// Not a test: a process that adds to the file in the variable.
#[test]
fn writer() {
    let Some(path) = std::env::var_os("RC3_TEST_PATHS") else { return };
    let first: u8 = std::env::var("RC3_TEST_FIRST").unwrap().parse().unwrap();
    for host in 0..20 {
        // Each of them as a separate process.
        let memory = PathMemory::open(&path);
        let remote = SocketAddr::from(([192, 0, first, host], 9));
        memory.set_marks(remote, [10, 0, 0, 3].into(), rc3_net::marks::MarkChoice::Cs1);
        // A busy machine may not let it have the lock within a second.
        while let Err(error) = memory.save() {
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
        }
    }
}

#[test]
fn processes_that_write_at_the_same_time_lose_nothing_of_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("paths");
    let start = |first: u8| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "paths::writer"])
            .env("RC3_TEST_PATHS", &path)
            .env("RC3_TEST_FIRST", first.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut writers: Vec<_> = (1..4).map(start).collect();
    assert!(writers.iter_mut().all(|writer| writer.wait().unwrap().success()));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains(" marks=cs1 ")).count(), 60, "{text}");
}
