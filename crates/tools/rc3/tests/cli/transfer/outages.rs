//! The link goes away for a while, or the other side is started again.

use std::{fs, net::UdpSocket, process::Stdio};

use super::harness::*;

/// In a network of its own: loopback is down longer than TCP's retransmissions, and the old idle timeout, are apart.
#[test]
fn a_transfer_outlives_an_outage() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let script = "\"$1\" recv --quiet --bind 127.0.0.1 --dir \"$3\" --ticket-file \"$3/.ticket\" & r=$!
        while [ ! -s \"$3/.ticket\" ]; do sleep 0.1; done
        \"$1\" send --rate-limit 100mbit --ticket-file \"$3/.ticket\" \"$2\" & s=$!
        sleep 2; ip link set lo down; sleep 13; ip link set lo up
        wait $s && wait $r";
    let Some(output) = in_own_network(script, &[&file, to.path()]) else { return };
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("it goes on when the path is back"), "{}", said(&output));
    assert!(fs::read(to.path().join("large")).unwrap() == fs::read(&file).unwrap());
}

#[test]
fn a_sender_goes_on_with_a_receiver_that_is_started_again() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let identity = from.path().join("identity");
    let start = || {
        let mut command = rc3();
        command.args(["recv", "--quiet", "--bind", &format!("127.0.0.1:{port}"), "--dir"]).arg(to.path());
        command.arg("--identity").arg(&identity).arg("--ticket-file").arg(from.path().join("ticket"));
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut receiver = start();
    while !from.path().join("ticket").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut command = rc3();
    command.args(["send", "--json", "--rate-limit", "60mbit"]).arg(&file).arg("--ticket-file");
    let sender =
        command.arg(from.path().join("ticket")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let sender = sender.unwrap();
    wait_for_record_of(to.path(), 5_000_000);
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    let mut receiver = start();
    let output = sender.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let events = String::from_utf8(output.stdout).unwrap();
    assert!(
        events.contains(r#"{"event":"retrying","reason":"lost the connection: the other side was restarted"#),
        "{events}"
    );
    assert_eq!(patiently(&mut receiver), Some(0));
    assert!(fs::read(to.path().join("large")).unwrap() == fs::read(&file).unwrap());
    // What had been written down was not sent again.
    let starts = events.lines().filter(|line| line.contains(r#""event":"start""#)).count();
    assert_eq!(starts, 2);
}
