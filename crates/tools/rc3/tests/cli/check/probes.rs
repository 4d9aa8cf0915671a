//! `rc3 check` as users run it, over loopback: a path that keeps marks, and one that clears them.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{SocketAddr, UdpSocket},
    process::{Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rc3::emulator::{EmulatorConfig, LinkEmulator};
use rc3_core::units::Rate;
use rc3_net::marks::MarkChoice;
use serde_json::Value;

use crate::{
    listener::{Listener, rc3},
    skip::{sends_code_points, skipped},
};

/// The last event of each name.
fn events(output: &Output) -> Value {
    let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.map(serde_json::from_slice::<Value>);
    let events = events.map(|event| event.unwrap_or_else(|error| panic!("{error}: {output:?}")));
    events.map(|event| (event["event"].as_str().expect("a name").to_owned(), event)).collect()
}

/// This host and the probes.
fn check(ticket: &str) -> (Value, Output) {
    let output =
        rc3().args(["check", "--json", "--only", "host,probes", ticket]).output().expect("it starts");
    (events(&output), output)
}

fn seen(report: &Value, direction: &str, dscp: u8) -> Option<u64> {
    report["path"][format!("marks_{direction}")][dscp.to_string()].as_u64()
}

#[test]
fn a_path_that_keeps_marks_is_reported_as_such() {
    if !sends_code_points() {
        return skipped("code points");
    }
    let listener = Listener::start(&["127.0.0.1"]);
    let (report, _) = check(&listener.ticket);
    assert_eq!(report["host"]["dscp_ipv4"], true);
    assert_eq!(report["path"]["mtu"], 16_384, "the longest that is tried");
    for dscp in 0..64 {
        assert_eq!(seen(&report, "there", dscp), Some(dscp.into()), "there, {dscp}");
        assert_eq!(seen(&report, "back", dscp), Some(dscp.into()), "back, {dscp}");
    }
}

#[test]
fn tickets_need_not_be_arguments() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ticket");
    let mut listener = rc3();
    listener.args(["check", "--listen", "--bind", "127.0.0.1", "--ticket-file"]).arg(&path);
    let mut child = listener.stdout(Stdio::piped()).spawn().expect("the listener starts");
    let until = Instant::now() + Duration::from_secs(30);
    while !path.exists() {
        assert!(Instant::now() < until, "no ticket");
        thread::sleep(Duration::from_millis(20));
    }
    let ticket = fs::read_to_string(&path).unwrap();
    let flags = ["check", "--json", "--only", "flows", "--sizes", "10k", "--runs", "1", "--seconds", "0"];
    for (way, given) in [("--ticket-file", Some(&path)), ("RC3_TICKET", None)] {
        let mut command = rc3();
        command.args(flags);
        match given {
            Some(path) => command.arg(way).arg(path),
            None => command.env(way, ticket.trim()),
        };
        let output = command.output().expect("it starts");
        assert_eq!(events(&output)["flow"]["bytes"], 10_000, "by {way}");
    }
    // This host can be checked whatever ticket there is.
    let mut command = rc3();
    command.args(["check", "--json", "--only", "host"]).env("RC3_TICKET", ticket.trim());
    let report = events(&command.output().expect("it starts"));
    assert!(report["path"].is_null() && report["done"]["healthy"].is_boolean(), "{report}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_path_that_takes_marks_off_is_found_out() {
    // A hop that copies payloads into its own datagrams.
    let hop = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let here = hop.local_addr().expect("bound");
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let listener = Listener::start(&[&peer.to_string(), "--advertise", &here.to_string()]);
    thread::spawn(move || relay(&hop, peer));
    let (report, output) = check(&listener.ticket);
    for dscp in 0..64 {
        assert_eq!(seen(&report, "there", dscp), Some(0), "there, {dscp}");
        assert_eq!(seen(&report, "back", dscp), Some(0), "back, {dscp}");
    }
    assert_eq!(report["path"]["mtu"], 1500, "the hop cuts datagrams at 2048 bytes");
    assert_eq!(output.status.code(), Some(6), "a problem to fix");
}

/// Runs until the test's process ends.
fn relay(hop: &UdpSocket, peer: SocketAddr) {
    let mut client = None;
    let mut buf = [0; 2048];
    while let Ok((len, from)) = hop.recv_from(&mut buf) {
        let to = if from == peer {
            client
        } else {
            client = Some(from);
            Some(peer)
        };
        if let Some(to) = to {
            let _ = hop.send_to(&buf[..len], to);
        }
    }
}

#[test]
fn everything_is_checked_unless_parts_are_named() {
    let listener = Listener::start(&["127.0.0.1"]);
    // A listener serves several visits.
    for _ in 0..2 {
        let flags = ["check", "--json", "--both", "--sizes", "4M", "--runs", "1", "--seconds", "0"];
        let output = rc3().args(flags).arg(&listener.ticket).output().expect("it starts");
        let report = events(&output);
        assert_eq!(report["host"]["dscp_ipv4"], sends_code_points());
        assert_eq!(report["path"]["mtu"], 16_384);
        let flow = &report["flow"];
        assert_eq!((&flow["scheme"], &flow["direction"]), (&"rc3".into(), &"back".into()));
        assert_eq!(flow["bytes"], 4_000_000);
        let path = &flow["path"];
        assert!(path["rtt_ms"].as_f64().is_some_and(|rtt| rtt > 0.0), "{path}");
        assert!(["honoured", "ignored", "unproven"].contains(&path["verdict"].as_str().unwrap()), "{path}");
        let carried = path["primary_bytes"].as_u64().unwrap() + path["rlp_bytes"].as_u64().unwrap();
        assert!(carried >= 4_000_000, "{path}");
        assert_eq!((&path["levels"][0]["level"], &path["levels"][0]["dscp"]), (&0.into(), &0.into()));
    }
}

#[test]
fn a_link_that_knows_cs1_but_not_le_is_found_out_and_the_next_command_uses_it() {
    if !sends_code_points() {
        return skipped("code points");
    }
    finds_and_uses(MarkChoice::Cs1, 8);
}

#[test]
fn a_link_that_knows_the_levels_is_found_out_and_the_next_command_uses_them() {
    if !sends_code_points() {
        return skipped("code points");
    }
    finds_and_uses(MarkChoice::PerLevel, 3);
}

fn finds_and_uses(marks: MarkChoice, dscp: u64) {
    let directory = tempfile::tempdir().unwrap();
    let memory = directory.path().join("paths");
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let mut config =
        EmulatorConfig::new(Rate::from_bits_per_second(20_000_000).unwrap(), Duration::from_millis(20));
    config.buffer = 200_000;
    config.marks = marks.into();
    let link = LinkEmulator::start(config, server).expect("a link");
    let listener = Listener::start(&[&server.to_string(), "--advertise", &link.client_addr().to_string()]);
    let check = |only| {
        let flags = ["check", "--json", "--sizes", "4M", "--runs", "1", "--seconds", "0", "--only", only];
        let mut command = rc3();
        command.args(flags).arg("--path-memory").arg(&memory).arg(&listener.ticket);
        events(&command.output().expect("it starts"))
    };
    let uses_marks = |report: &Value| {
        let low = &report["flow"]["path"]["levels"][1];
        assert_eq!((low["level"].as_u64(), low["dscp"].as_u64()), (Some(1), Some(dscp)), "{report}");
    };
    let report = check("probes,flows");
    for choice in report["path"]["choices"].as_array().unwrap() {
        let is_honoured = choice["marks"] == marks.name();
        assert_eq!(choice["there"]["treatment"] == "different", is_honoured, "{report}");
    }
    assert_eq!(report["path"]["advice"]["marks"], marks.name());
    assert_eq!(report["path"]["advice"]["reason"], "overtaken");
    // The flow of the same visit already uses these marks.
    uses_marks(&report);
    let text = fs::read_to_string(&memory).expect("it is stored");
    assert!(text.contains(&format!(" marks={} ", marks.name())), "{text}");
    // The next command knows them from memory alone, and the rate, which a flow may not have measured while the host was busy.
    let knows_rate = (0..3).any(|_| {
        let report = check("flows");
        uses_marks(&report);
        report["flow"]["path"]["remembered"] == true
    });
    assert!(knows_rate, "{}", fs::read_to_string(&memory).expect("it is stored"));
}

#[test]
fn silence_and_foreign_tickets_have_distinct_errors() {
    let listener = Listener::start(&["127.0.0.1"]);
    let ticket = listener.ticket.clone();
    drop(listener);
    let output = rc3().args(["check", &ticket]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let mut receiver = rc3()
        .args(["recv", "--quiet", "--listen", "127.0.0.1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut ticket = String::new();
    BufReader::new(receiver.stdout.take().expect("piped")).read_line(&mut ticket).expect("a ticket");
    let output = rc3().args(["check", ticket.trim()]).output().expect("it starts");
    let _ = receiver.kill();
    let _ = receiver.wait();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}
