//! Passing a ticket from the receiver to the sender without exposing it.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use super::harness::*;

/// A receiver that writes its ticket to a file and prints nothing.
fn receiver(dir: &Path, ticket: &Path) -> std::process::Child {
    let child = rc3()
        .args(["recv", "--quiet", "--listen", "127.0.0.1", "--ticket-file"])
        .arg(ticket)
        .arg("--dir")
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while !ticket.exists() {
        assert!(Instant::now() < until, "no ticket");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn ticket_goes_by_file_environment_or_standard_input() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (file, ticket) = (from.path().join("file"), from.path().join("ticket"));
    fs::write(&file, content(1000)).unwrap();
    for way in ["file", "environment", "input"] {
        let mut receiver = receiver(to.path(), &ticket);
        assert_eq!(ticket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let line = fs::read_to_string(&ticket).unwrap();
        assert!(line.starts_with("rc3://") && line.ends_with('\n') && line.lines().count() == 1, "{line}");
        let mut command = rc3();
        command.arg("send").arg(&file);
        match way {
            "file" => command.arg("--ticket-file").arg(&ticket),
            "environment" => command.env("RC3_TICKET", line.trim()),
            _ => command.arg("-").stdin(Stdio::piped()),
        };
        let mut sender = command.stderr(Stdio::null()).spawn().unwrap();
        // Slow enough for a check that its arguments do not show the ticket.
        if let Some(mut input) = sender.stdin.take() {
            let arguments = fs::read(format!("/proc/{}/cmdline", sender.id()));
            assert!(!String::from_utf8_lossy(&arguments.unwrap_or_default()).contains("rc3://"));
            input.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(patiently(&mut sender), Some(0), "by {way}");
        assert_eq!(patiently(&mut receiver), Some(0));
        let mut out = String::new();
        std::io::Read::read_to_string(receiver.stdout.as_mut().unwrap(), &mut out).unwrap();
        assert_eq!(out, "", "the ticket is in the file only");
        assert!(!ticket.exists(), "an invalid ticket is removed");
        fs::remove_file(to.path().join("file")).unwrap();
    }
}

#[test]
fn tickets_in_two_places_or_none_are_usage_errors() {
    let directory = tempfile::tempdir().unwrap();
    let (file, ticket) = (directory.path().join("file"), directory.path().join("ticket"));
    let line = format!("rc3://127.0.0.1:9/#ae{}", "a".repeat(77));
    fs::write(&ticket, &line).unwrap();
    let run = |words: &[&std::ffi::OsStr], variable: Option<&str>| {
        let mut command = rc3();
        command.arg("send").args(words);
        if let Some(variable) = variable {
            command.env("RC3_TICKET", variable);
        }
        command.output().unwrap()
    };
    let (file, path, line) = (file.as_os_str(), ticket.as_os_str(), line.as_str());
    for (words, variable, code) in [
        (&[file, line.as_ref()][..], None, 1),
        (&[file, "--ticket-file".as_ref(), path][..], None, 1),
        (&[file][..], Some(line), 1),
        // Arguments override the environment.
        (&[file, line.as_ref()][..], Some("rc3://damaged"), 1),
        (&[file, "--ticket-file".as_ref(), path][..], Some("rc3://damaged"), 1),
        (&[file][..], Some("rc3://damaged"), 2),
        (&[file][..], Some(""), 2),
        (&[file][..], None, 2),
        (&[file, line.as_ref(), "--ticket-file".as_ref(), path][..], None, 2),
        (&[file, "--ticket-file".as_ref(), "/nonexistent".as_ref()][..], None, 2),
        (&[line.as_ref()][..], None, 2),
    ] {
        let output = run(words, variable);
        assert_eq!(output.status.code(), Some(code), "{words:?} {variable:?}: {}", said(&output));
        if code == 1 {
            // The ticket is good, but there is nothing to send.
            assert!(said(&output).starts_with("rc3: cannot read "), "{}", said(&output));
        }
        if code == 2 {
            assert_eq!(said(&output).lines().count(), 2, "{}", said(&output));
            assert!(said(&output).contains("hint: "), "{}", said(&output));
        }
        // No error repeats the secret.
        assert!(!said(&output).contains("aaaa"), "{}", said(&output));
    }
}

#[test]
fn ticket_file_replaces_a_link_rather_than_following_it() {
    let (directory, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ticket, other) = (directory.path().join("ticket"), directory.path().join("other"));
    fs::write(&other, b"precious").unwrap();
    std::os::unix::fs::symlink(&other, &ticket).unwrap();
    let mut child = rc3()
        .args(["recv", "--quiet", "--listen", "127.0.0.1:0", "--ticket-file"])
        .arg(&ticket)
        .arg("--dir")
        .arg(to.path())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while ticket.symlink_metadata().unwrap().is_symlink() {
        assert!(Instant::now() < until, "no ticket");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(&child, "-TERM");
    assert_eq!(patiently(&mut child), Some(130));
    assert_eq!(fs::read(&other).unwrap(), b"precious");
}
