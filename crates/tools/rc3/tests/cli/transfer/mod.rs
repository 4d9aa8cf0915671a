//! `rc3 send` and `rc3 recv` as users run them, over loopback.

use std::{fs, time::Duration};

use harness::*;
use rc3::transfer::ticket::{Fingerprint, Secret, Ticket};

#[cfg(target_os = "linux")]
mod addresses;
#[cfg(unix)]
mod admission;
#[cfg(target_os = "linux")]
pub(crate) mod attributes;
#[cfg(unix)]
mod clashes;
#[cfg(target_os = "linux")]
mod durability;
#[cfg(unix)]
mod faults;
#[cfg(unix)]
mod folders;
#[cfg(target_os = "linux")]
mod full_output;
mod harness;
#[cfg(unix)]
mod hostile_receiver;
#[cfg(unix)]
mod hostile_sender;
#[cfg(unix)]
mod interruption;
#[cfg(unix)]
mod library;
mod many;
#[cfg(unix)]
mod modes;
#[cfg(unix)]
mod names;
#[cfg(target_os = "linux")]
mod outages;
#[cfg(unix)]
mod paths;
#[cfg(unix)]
mod pipes;
#[cfg(unix)]
mod random_moments;
#[cfg(unix)]
mod reasons;
#[cfg(unix)]
mod rendezvous;
#[cfg(target_os = "linux")]
mod rights;
#[cfg(unix)]
mod tickets;

#[test]
fn tree_with_odd_names_arrives_as_it_was() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("a tree");
    fs::create_dir_all(top.join("empty directory")).unwrap();
    fs::create_dir_all(top.join("déjà vu/日本")).unwrap();
    fs::write(top.join("empty file"), b"").unwrap();
    fs::write(top.join("-rf"), b"x").unwrap();
    fs::write(top.join("déjà vu/日本/😀 \n.txt"), content(10_000)).unwrap();
    fs::write(top.join("large"), content(5_000_000)).unwrap();
    fs::create_dir(top.join("many")).unwrap();
    for number in 0..1000 {
        fs::write(top.join(format!("many/{number}")), content(number)).unwrap();
    }
    fs::write(from.path().join("single"), b"alone").unwrap();

    let receiver = Receiver::start(to.path(), &["--fsync"]);
    let output = send(&receiver.ticket, &[&top, &from.path().join("single")], &["--json"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(receiver.finish(), (Some(0), String::new()));
    let (sent, arrived) = (tree(from.path()), tree(to.path()));
    assert_eq!(arrived.len(), sent.len());
    for (arrived, sent) in arrived.iter().zip(&sent) {
        assert_eq!(arrived.0, sent.0);
        assert!(arrived.1 == sent.1, "{} differs", sent.0);
    }

    let text = String::from_utf8(output.stdout).unwrap();
    let events: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let count = |name| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((count("start"), count("file"), count("done"), count("error")), (1, 1005, 1, 0));
    let done = events.last().unwrap();
    let bytes: u64 = sent.iter().map(|(_, content)| content.len() as u64).sum();
    assert_eq!((&done["event"], &done["bytes"]), (&"done".into(), &bytes.into()));
    assert!(done["rlp_bytes"].is_array());
}

#[cfg(unix)]
#[test]
fn executable_bit_and_time_are_kept_and_links_are_left_out() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    let tool = top.join("tool");
    fs::write(&tool, b"#!/bin/sh\n").unwrap();
    fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
    let then = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(&tool).unwrap().set_modified(then).unwrap();
    symlink("/etc/passwd", top.join("link")).unwrap();

    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&top], &[]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(said(&output).contains("left out: ") && said(&output).contains("link"), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    let arrived = to.path().join("top/tool").metadata().unwrap();
    assert_ne!(arrived.permissions().mode() & 0o100, 0);
    assert_eq!(arrived.modified().unwrap(), then);
    assert!(to.path().join("top/link").symlink_metadata().is_err());
}

#[test]
fn existing_files_are_kept_without_force() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, b"new").unwrap();
    fs::write(to.path().join("file"), b"old").unwrap();

    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&file], &["--quiet"]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(
        said(&output).starts_with(
            "conflict: file exists at the receiver with other content\n\
             rc3: 1 file exists at the receiver with other content\nhint: "
        ),
        "{}",
        said(&output)
    );
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"old");
    assert_eq!(receiver.finish().0, Some(5));

    let receiver = Receiver::start(to.path(), &["--force"]);
    let output = send(&receiver.ticket, &[&file], &["--quiet"]);
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(tree(to.path()), [("file".to_owned(), b"new".to_vec())]);
}

/// The ticket with another fingerprint or secret.
fn altered(ticket: &str, alter: impl Fn(&mut Fingerprint, &mut Secret)) -> String {
    let ticket: Ticket = ticket.parse().expect("a ticket");
    let (mut fingerprint, mut secret) = (ticket.fingerprint(), ticket.secret());
    alter(&mut fingerprint, &mut secret);
    Ticket::new(ticket.host(), ticket.port(), fingerprint, secret).expect("a ticket").to_string()
}

#[test]
fn senders_without_the_secret_are_turned_away() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, content(100_000)).unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&altered(&receiver.ticket, |_, secret| secret.0[0] ^= 1), &[&file], &[]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("secret"), "{}", said(&output));
    assert!(tree(to.path()).is_empty());
    // The receiver still waits for the right ticket.
    assert!(send(&receiver.ticket, &[&file], &[]).status.success());
    assert_eq!(receiver.finish().0, Some(0));
}

#[test]
fn other_receivers_than_the_tickets_get_nothing() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, content(100_000)).unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&altered(&receiver.ticket, |fingerprint, _| fingerprint.0[0] ^= 1), &[&file], &[]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("not the host that made this ticket"), "{}", said(&output));
    assert!(tree(to.path()).is_empty());
}

#[test]
fn killed_sender_leaves_no_file_and_another_goes_on_where_it_stopped() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    wait_for_record_of(to.path(), 3_000_000);
    sender.kill().unwrap();
    sender.wait().unwrap();
    assert!(!to.path().join("large").exists());
    // The same ticket is valid for another try at once, which waits until the receiver drops the first.
    let sent = send_the_rest(receiver, &file, to.path());
    assert!(sent < 49_000_000, "{sent} bytes sent again");
}

#[test]
fn killed_receiver_leaves_no_file_and_another_goes_on_where_it_stopped() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let mut receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    wait_for_record_of(to.path(), 3_000_000);
    receiver.child.kill().unwrap();
    receiver.child.wait().unwrap();
    assert!(names(to.path()).iter().all(|name| name.ends_with(".rc3-part")), "{:?}", names(to.path()));
    assert_eq!(patiently(&mut sender), Some(1), "it notices");
    let sent = send_the_rest(Receiver::start(to.path(), &[]), &file, to.path());
    assert!(sent < 49_000_000, "{sent} bytes sent again");
}

#[test]
fn what_is_left_of_another_file_is_not_gone_on_with() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let mut receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    wait_for_record(to.path());
    receiver.child.kill().unwrap();
    receiver.child.wait().unwrap();
    sender.kill().unwrap();
    sender.wait().unwrap();
    // Changed, but with the same length and time.
    let modified = file.metadata().unwrap().modified().unwrap();
    let mut changed = content(50_000_000);
    changed.iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(&file, changed).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&file], &[]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(3));
    assert!(names(to.path()).is_empty(), "{:?}", names(to.path()));
    // The next run sends it whole.
    let whole = file.metadata().unwrap().len();
    assert!(send_the_rest(Receiver::start(to.path(), &[]), &file, to.path()) >= whole);
}

#[cfg(unix)]
#[test]
fn interrupted_sender_says_so_and_the_receiver_waits_on() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    kill(&sender, "-INT");
    assert_eq!(patiently(&mut sender), Some(130));
    assert!(!to.path().join("large").exists());
    send_the_rest(receiver, &file, to.path());
}

#[test]
fn usage_errors_say_what_to_do() {
    let output = rc3().args(["send", "file", "not-a-ticket"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(said(&output).lines().count(), 2, "{}", said(&output));
    assert!(said(&output).contains("hint: "));
    assert_eq!(rc3().arg("send").output().unwrap().status.code(), Some(2));
    let output = rc3().args(["recv", "--dir", "/nonexistent/directory"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said(&output).lines().count(), 2, "{}", said(&output));
}

#[test]
fn usage_errors_are_events_where_a_program_reads_them() {
    for words in [
        &["send", "--json", "file", "not-a-ticket"][..],
        &["send", "file", "-", "--json", "--rate-limit", "5"],
        &["send", "--json"],
        &["recv", "--json", "--no-such-flag"],
        &["recv", "--json", "--give-up-after", "10"],
        &["send", "--json", "--include", "[", "file", "-"],
    ] {
        let output = rc3().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert_eq!(said(&output), "", "{words:?}");
        let event = last_event(&output);
        assert_eq!(event["event"], "error", "{words:?}");
        assert!(
            !event["hint"].as_str().unwrap().is_empty() && !event["message"].as_str().unwrap().is_empty()
        );
    }
    let output = rc3().args(["send", "--json", "--rate-limit", "5", "file", "-"]).output().unwrap();
    let event = last_event(&output);
    assert!(
        event["message"].as_str().unwrap().contains("missing unit, write for example 200mbit"),
        "{event}"
    );
}

#[test]
fn options_may_stand_anywhere() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["a", "b"] {
        fs::write(from.path().join(name), content(1000)).unwrap();
    }
    let receiver = Receiver::start(to.path(), &[]);
    let output = rc3()
        .arg("send")
        .arg(from.path().join("a"))
        .args(["--quiet", "--rate-limit", "1gbit"])
        .arg(from.path().join("b"))
        .args(["--rlp", "off", &receiver.ticket, "--give-up-after", "5s"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    assert!(tree(from.path()) == tree(to.path()));
}

#[test]
fn completions_and_manual_pages_cover_every_command() {
    let output = rc3().args(["completions", "bash"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("--rate-limit"));
    let directory = tempfile::tempdir().unwrap();
    assert!(rc3().args(["man", "--out"]).arg(directory.path()).status().unwrap().success());
    let pages: Vec<_> = tree(directory.path()).into_iter().map(|(name, _)| name).collect();
    for page in ["rc3.1", "rc3-send.1", "rc3-recv.1"] {
        assert!(pages.iter().any(|name| name == page), "{pages:?}");
    }
}
