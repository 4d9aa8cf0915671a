//! The other side is started again, or hung up.

use std::{
    fs,
    io::{Read, Write},
    net::UdpSocket,
    process::Command,
    thread,
    time::Duration,
};

use super::harness::*;
use crate::skip::skipped;

pub(crate) fn signal(process: &Process, name: &str) {
    let id = process.child.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

#[test]
fn listeners_stay_while_the_peer_is_started_again() {
    restart("-KILL", None, "the other side was restarted");
    // As by a service manager.
    restart("-TERM", Some(0), "the other side was stopped, and may be started again");
}

/// Ends the listener by this signal, and starts it again.
fn restart(by: &str, code: Option<i32>, reason: &str) {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bind = format!("127.0.0.1:{port}");
    let mut server = Server::start(&["--allow", "127.0.0.1:*", "--bind", &bind]);
    let client = Client::start(&server, &["-L", &forward(echo())]);
    let address = client.process.address();
    assert_eq!(ask(address, b"before"), b"before");
    signal(&server.process, by);
    assert_eq!(server.process.child.wait().unwrap().code(), code);
    let state = tempfile::tempdir().unwrap();
    for name in fs::read_dir(server.state.path()).unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&name, state.path().join(name.file_name().unwrap())).unwrap();
    }
    let _again = Server::start_in(state, &["--allow", "127.0.0.1:*", "--bind", &bind, "--no-ticket"]);
    let said = client.process.line_with("trying again in");
    assert!(said.contains(reason), "{said}");
    assert_eq!(ask(address, b"after"), b"after");
}

/// ssh ends the command of a ProxyCommand by SIGHUP.
#[test]
fn sessions_that_are_hung_up_leave_no_place_taken() {
    // Under `nohup` they ignore it, as they should.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("1").trim();
    if u64::from_str_radix(ignored, 16).is_ok_and(|mask| mask & 1 == 1) {
        return skipped("Linux, and a SIGHUP that is not ignored");
    }
    let server = Server::start(&["--allow", "127.0.0.1:*", "--metrics", "127.0.0.1:0"]);
    let state = tempfile::tempdir().unwrap();
    let target = echo();
    // There are 64 places.
    for session in 0..72 {
        let ticket = (session == 0).then_some(server.ticket.as_str());
        let stdio_flag = format!("--stdio={target}");
        let flags: Vec<&str> =
            if ticket.is_some() { vec![&stdio_flag] } else { vec![&stdio_flag, "127.0.0.1"] };
        let mut process = stdio(state.path(), &flags, ticket);
        server.process.line_with(": connected");
        let mut byte = [0];
        process.child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        process.child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        signal(&process, "-HUP");
        let left = server.process.line_with("lost the connection");
        assert!(left.contains("was interrupted"), "{left}");
    }
    let metrics = server.metrics.unwrap();
    while !scrape(&metrics).lines().any(|line| line == "rc3_tunnel_peers 0") {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(scrape(&metrics).lines().any(|line| line == "rc3_tunnel_connections{answer=\"0\"} 72"));
}
