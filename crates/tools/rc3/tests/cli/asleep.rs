//! A tunnel whose listener is stopped for longer than most tests take. They begin by name: with this one first, all others
//! run meanwhile.
#![cfg(unix)]

use std::{
    io::{Read, Write},
    thread,
    time::{Duration, Instant},
};

use crate::tunnel::{harness::*, outages::signal};

/// Longer than the former idle timeout, as a laptop that sleeps.
#[test]
fn connections_outlive_a_listener_that_is_stopped_for_a_while() {
    let server = Server::start(&["--allow", "127.0.0.1:*"]);
    let client = Client::start(&server, &["-L", &forward(echo())]);
    let mut stream = connect(client.process.address());
    let mut answer = [0; 5];
    stream.write_all(b"first").unwrap();
    stream.read_exact(&mut answer).unwrap();
    signal(&server.process, "-STOP");
    stream.write_all(b"after").unwrap();
    thread::sleep(Duration::from_secs(22));
    signal(&server.process, "-CONT");
    let back = Instant::now();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"after");
    println!("the answer came {:?} after it went on", back.elapsed());
}
