//! Results that a full disk does not take.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use super::harness::*;

/// Runs it with standard output on a full disk.
fn onto_full_disk(arguments: &[&str], more: &[&Path]) -> Output {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = rc3();
    command.args(arguments).args(more).stdout(full).stderr(Stdio::piped());
    let child = command.spawn().expect("rc3 starts");
    let process = child.id();
    // A test fails instead of hanging.
    let (done, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    waiting
        .recv_timeout(Duration::from_secs(60))
        .unwrap_or_else(|_| {
            let _ = Command::new("kill").args(["-9", &process.to_string()]).status();
            panic!("{arguments:?} does not end");
        })
        .unwrap()
}

fn assert_reported(output: &Output, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{what}: {said}");
    assert!(said.contains("No space left on device"), "{what}: {said}");
}

#[test]
fn every_result_on_a_full_disk_is_an_error() {
    let to = tempfile::tempdir().unwrap();
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["man"],
        &["completions", "bash"],
        &["tunnel", "--show-identity", "--state"],
        // Nobody could send without the ticket.
        &["recv", "--listen", "127.0.0.1", "--dir"],
        &["recv", "--keep", "--json", "--listen", "127.0.0.1", "--dir"],
        &["check", "--listen", "--bind", "127.0.0.1:0"],
        &["tunnel", "--listen", "--bind", "127.0.0.1:0", "--state"],
    ] {
        let takes_directory = ["--dir", "--state"].contains(arguments.last().unwrap());
        let more: &[&Path] = if takes_directory { &[to.path()] } else { &[] };
        assert_reported(&onto_full_disk(arguments, more), &arguments.join(" "));
    }
}

#[test]
fn a_transfer_whose_events_are_lost_arrives_and_fails() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, b"content").unwrap();
    for (flags, arrives) in
        [(&["--dry-run"][..], false), (&["--dry-run", "--json"], false), (&["--json"], true)]
    {
        let receiver = Receiver::start(to.path(), &[]);
        let ticket = Path::new(&receiver.ticket);
        let output = onto_full_disk(&[&["send"], flags].concat(), &[&file, ticket]);
        assert_reported(&output, &flags.join(" "));
        assert_eq!(to.path().join("file").exists(), arrives, "{flags:?}");
    }
}
