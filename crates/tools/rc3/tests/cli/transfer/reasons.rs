//! What users read when something fails: the true cause, and what to do.

use std::{fs, process::Command};

use super::harness::*;

#[test]
fn an_argument_that_is_neither_a_file_nor_a_ticket_is_named() {
    for (last, named) in [("x", "x"), ("rc3:/192.0.2.1:9/#aisecret", "rc3:/192.0.2.1:9/")] {
        let output = rc3().args(["send", "nofile", last]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let expected = format!("rc3: {named} is neither a file nor a ticket\nhint: ");
        assert!(said(&output).starts_with(&expected), "{}", said(&output));
    }
}

#[test]
fn a_name_without_room_for_a_number_is_no_conflict() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let name = "n".repeat(255);
    fs::write(from.path().join(&name), b"new").unwrap();
    fs::write(to.path().join(&name), b"old").unwrap();
    let receiver = Receiver::start(to.path(), &["--keep-both"]);
    let output = send(&receiver.ticket, &[&from.path().join(&name)], &[]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(said(&output).contains("too long for a number"), "{}", said(&output));
    assert!(!said(&output).contains("--keep-both"), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(7));
}

#[test]
fn a_sender_that_waited_in_vain_reads_why() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (large, small) = (large_file(from.path()), from.path().join("small"));
    fs::write(&small, b"x").unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let mut first = rc3();
    let first = first.args(["send", "--quiet", "--rate-limit", "200mbit"]).arg(&large).arg(&receiver.ticket);
    let mut first = first.spawn().unwrap();
    wait_for_bytes(to.path(), 1);
    let second = send(&receiver.ticket, &[&small], &[]);
    assert_eq!(second.status.code(), Some(1), "{}", said(&second));
    assert!(
        said(&second).contains("another transfer\nrc3: the receiver took another sender's"),
        "{}",
        said(&second)
    );
    assert!(said(&second).contains("--keep"), "{}", said(&second));
    assert_eq!((patiently(&mut first), receiver.finish().0), (Some(0), Some(0)));
}

#[test]
fn too_few_descriptors_are_not_taken_for_a_full_disk() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Smaller ones are open only while they are written.
    for number in 0..100 {
        fs::write(from.path().join(number.to_string()), content(300_000)).unwrap();
    }
    let mut limited = Command::new("sh");
    unknowing(&mut limited).args([
        "-c",
        "ulimit -Sn 20; ulimit -Hn 20; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_rc3"),
    ]);
    let receiver = Receiver::run(limited, to.path(), &["--quiet"]);
    let output = send(&receiver.ticket, &[from.path()], &["--quiet"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    kill(&receiver.child, "-INT");
    let said = receiver.finish_loud();
    assert!(said.contains("raise the limit of open files") && !said.contains("free space"), "{said}");
}
