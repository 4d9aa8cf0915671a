//! `--stdio`.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use super::harness::*;

#[test]
fn standard_input_and_output_are_a_connection() {
    let server = Server::start(&[]);
    let state = tempfile::tempdir().unwrap();
    let to = format!("--stdio={}", echo());
    let mut process = stdio(state.path(), &[&to], Some(&server.ticket));
    let (mut input, mut output) = (process.child.stdin.take().unwrap(), process.child.stdout.take().unwrap());
    // Byte by byte, as a user types.
    for byte in *b"keystrokes" {
        input.write_all(&[byte]).unwrap();
        let mut echoed = [0];
        output.read_exact(&mut echoed).unwrap();
        assert_eq!(echoed, [byte]);
    }
    let bytes = content(4, 5_000_000);
    let writing = bytes.clone();
    let writer = thread::spawn(move || input.write_all(&writing).unwrap());
    let mut echoed = Vec::new();
    // The end of standard input passes through the echo server to standard output.
    output.read_to_end(&mut echoed).unwrap();
    writer.join().unwrap();
    assert!(echoed == bytes);
    assert_eq!(process.finish().0, Some(0));
}

#[test]
fn standard_output_ends_before_standard_input() {
    let server = Server::start(&[]);
    let state = tempfile::tempdir().unwrap();
    let (sender, heard) = std::sync::mpsc::channel();
    let early = target(move |mut stream| {
        stream.write_all(b"bye").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        sender.send(rest).unwrap();
    });
    let mut process = stdio(state.path(), &[&format!("--stdio={early}")], Some(&server.ticket));
    let mut output = Vec::new();
    process.child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    assert_eq!(output, b"bye");
    let mut input = process.child.stdin.take().unwrap();
    input.write_all(b"after the end").unwrap();
    drop(input);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), b"after the end");
    assert_eq!(process.finish().0, Some(0));
}

#[test]
fn a_target_that_reads_late_gets_every_byte() {
    let server = Server::start(&[]);
    let state = tempfile::tempdir().unwrap();
    let (sender, heard) = std::sync::mpsc::channel();
    let slow = target(move |mut stream| {
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // Meanwhile all that is left has reached the other host.
        thread::sleep(std::time::Duration::from_millis(500));
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        sender.send(bytes).unwrap();
    });
    let mut process = stdio(state.path(), &[&format!("--stdio={slow}")], Some(&server.ticket));
    let bytes = content(5, 12_000_000);
    let mut input = process.child.stdin.take().unwrap();
    input.write_all(&bytes).unwrap();
    drop(input);
    assert!(heard.recv_timeout(PATIENCE).unwrap() == bytes);
    assert_eq!(process.finish().0, Some(0));
}

#[test]
fn a_target_out_of_reach_is_an_error_with_its_reason() {
    let server = Server::start(&["--allow", "127.0.0.1:*"]);
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (to, code, reason) in [
        (dead.to_string(), 1, "the target refused the connection"),
        ("192.0.2.1:80".to_owned(), 4, "does not allow that target"),
    ] {
        let state = tempfile::tempdir().unwrap();
        let process = stdio(state.path(), &[&format!("--stdio={to}")], Some(&server.ticket));
        let (exit, said) = process.finish();
        assert_eq!(exit, Some(code), "{said}");
        assert!(said.contains(reason) && said.contains("hint: "), "{said}");
    }
}
