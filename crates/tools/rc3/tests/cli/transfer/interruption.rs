//! Interrupted transfers, and how they resume.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::harness::*;

#[test]
fn interrupted_receivers_keep_what_arrived_and_the_next_goes_on_with_it() {
    for signal in ["-INT", "-TERM"] {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = large_file(from.path());
        let receiver = Receiver::start(to.path(), &[]);
        let mut sender = slow_sender(&receiver, &file, to.path());
        wait_for_bytes(to.path(), 5_000_000);
        kill(&receiver.child, signal);
        let (code, heard) = receiver.finish();
        assert_eq!(code, Some(130));
        assert!(
            heard.contains("what arrived is kept") && heard.contains("run the same command again"),
            "{heard}"
        );
        assert_eq!(patiently(&mut sender), Some(1));
        let reason = super::harness::heard(&mut sender);
        assert!(reason.contains("the other side was interrupted, and keeps what arrived"), "{reason}");
        assert!(!to.path().join("large").exists());
        let sent = send_the_rest(Receiver::start(to.path(), &[]), &file, to.path());
        assert!(sent < 47_000_000, "{signal}: {sent} bytes sent again");
    }
}

#[test]
fn a_killed_sender_gives_way_to_the_next_long_before_its_idle_timeout() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    // Without the rule the second sender would wait for ten minutes, and the test with it.
    let receiver = Receiver::start(to.path(), &["--give-up-after", "600s"]);
    let slow = ["send", "--quiet", "--rate-limit", "40mbit", "--give-up-after", "600s"];
    let mut killed = rc3().args(slow).arg(&file).arg(&receiver.ticket).spawn().unwrap();
    wait_for_record_of(to.path(), 5_000_000);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let sent = send_the_rest(receiver, &file, to.path());
    assert!(sent < 47_000_000, "{sent} bytes sent again");
}

#[test]
fn parts_are_deleted_where_that_is_asked_for() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let receiver = Receiver::start(to.path(), &["--discard-partial"]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    wait_for_bytes(to.path(), 1_000_000);
    kill(&receiver.child, "-INT");
    let (code, heard) = receiver.finish();
    assert_eq!(code, Some(130));
    assert!(!heard.contains("kept"), "{heard}");
    assert!(names(to.path()).is_empty(), "{:?}", names(to.path()));
    assert_eq!(patiently(&mut sender), Some(1));
    let reason = super::harness::heard(&mut sender);
    assert!(reason.contains("was interrupted, and deletes what is incomplete"), "{reason}");
}

#[cfg(unix)]
#[test]
fn a_file_too_long_for_the_file_system_costs_no_other_and_what_arrived_is_kept() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    // In blocks of 1024 bytes.
    let script = "trap '' XFSZ; ulimit -f 20000; exec \"$0\" \"$@\"";
    let mut child = Command::new("bash")
        .args([
            "-c",
            script,
            env!("CARGO_BIN_EXE_rc3"),
            "recv",
            "--rlp",
            "off",
            "--listen",
            "127.0.0.1",
            "--dir",
        ])
        .arg(to.path())
        .env_remove("RUST_LOG")
        .env_remove("HOME")
        .env_remove("XDG_STATE_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut ticket = String::new();
    out.read_line(&mut ticket).unwrap();
    let mut receiver = Receiver { child, out, ticket: ticket.trim().to_owned() };
    let small = from.path().join("small");
    fs::write(&small, content(100_000)).unwrap();
    let output = send(&receiver.ticket, &[&file, &small], &["--rate-limit", "80mbit"]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert_eq!(patiently(&mut receiver.child), Some(7));
    let heard = super::harness::heard(&mut receiver.child);
    for text in [said(&output), heard] {
        assert!(text.contains("left out: large (the receiver cannot store it: File too large"), "{text}");
    }
    assert!(fs::read(to.path().join("small")).unwrap() == content(100_000));
    // Without the limit, the rest.
    fs::remove_file(to.path().join("small")).unwrap();
    let sent = send_the_rest(Receiver::start(to.path(), &[]), &file, to.path());
    assert!(sent < 35_000_000, "{sent} bytes sent again");
}

fn folder(root: &Path) -> std::path::PathBuf {
    let top = root.join("folder");
    fs::create_dir_all(top.join("deep/er")).unwrap();
    for number in 0..20 {
        fs::write(top.join(format!("{number:02}")), content(200_000 + number)).unwrap();
    }
    fs::write(top.join("deep/er/large"), content(20_000_000)).unwrap();
    fs::write(top.join("last"), content(3)).unwrap();
    top
}

#[test]
fn folder_goes_on_after_the_receiver_was_killed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = folder(from.path());
    let mut receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &top, to.path());
    let until = Instant::now() + Duration::from_secs(30);
    let complete = || names(&to.path().join("folder")).iter().filter(|name| !name.starts_with('.')).count();
    // One of them a directory.
    while complete() < 5 {
        assert!(Instant::now() < until, "nothing arrives");
        std::thread::sleep(Duration::from_millis(20));
    }
    receiver.child.kill().unwrap();
    receiver.child.wait().unwrap();
    assert_eq!(patiently(&mut sender), Some(1));

    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&top], &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(receiver.finish().0, Some(0));
    assert!(tree(from.path()) == tree(to.path()));
    let done = last_event(&output);
    assert!(done["unchanged_files"].as_u64() >= Some(4), "{done}");

    // Once more: everything exists.
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&top], &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(last_event(&output)["unchanged_files"], 22);
    // Except the files that did not wait for the answer, of 24 MB.
    assert!(carried(&output) < 4_300_000, "{}", last_event(&output));
}

#[test]
fn many_small_files_go_on_after_the_receiver_was_killed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("many");
    for folder in 0..10 {
        fs::create_dir_all(top.join(format!("{folder}"))).unwrap();
        for number in 0..200 {
            fs::write(top.join(format!("{folder}/{number}")), content(100)).unwrap();
        }
    }
    let mut receiver = Receiver::start(to.path(), &[]);
    let mut sender = rc3()
        .args(["send", "--quiet"])
        .arg(&top)
        .arg(&receiver.ticket)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while !to.path().join("many/3/0").exists() {
        assert!(Instant::now() < until, "nothing arrives");
        std::thread::sleep(Duration::from_millis(5));
    }
    receiver.child.kill().unwrap();
    receiver.child.wait().unwrap();
    sender.kill().unwrap();
    sender.wait().unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&top], &["--json"]);
    assert!(output.status.success(), "{}", last_event(&output));
    assert_eq!(receiver.finish().0, Some(0));
    assert!(tree(from.path()) == tree(to.path()));
    assert!(last_event(&output)["unchanged_files"].as_u64() >= Some(400), "{}", last_event(&output));
}
