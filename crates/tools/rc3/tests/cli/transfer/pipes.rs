//! `rc3 send -` and `rc3 recv --stdout`.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Stdio},
};

use super::harness::*;

/// A receiver on standard output, and its ticket from standard error.
fn stdout_receiver() -> (Child, String) {
    let mut child = rc3()
        .args(["recv", "--stdout", "--quiet", "--listen", "127.0.0.1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the receiver starts");
    let mut errors = BufReader::new(child.stderr.take().expect("piped"));
    let mut ticket = String::new();
    errors.read_line(&mut ticket).expect("a ticket");
    child.stderr = Some(errors.into_inner());
    (child, ticket.trim().to_owned())
}

/// A sender of standard input.
fn stdin_sender(ticket: &str, flags: &[&str]) -> Child {
    let mut command = rc3();
    command.args(["send", "--quiet"]).args(flags).args(["-", ticket]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the sender starts")
}

#[test]
fn a_pipe_arrives_in_order() {
    for bytes in [0, 1, 7_000_000] {
        let (mut receiver, ticket) = stdout_receiver();
        let mut sender = stdin_sender(&ticket, &[]);
        let mut input = sender.stdin.take().unwrap();
        let writer = std::thread::spawn(move || input.write_all(&content(bytes)));
        let mut arrived = Vec::new();
        receiver.stdout.take().unwrap().read_to_end(&mut arrived).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!((patiently(&mut sender), patiently(&mut receiver)), (Some(0), Some(0)));
        assert!(arrived == content(bytes), "{bytes} bytes");
    }
}

#[test]
fn a_pipe_becomes_a_file_with_a_name() {
    let to = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(to.path(), &["--keep"]);
    let send = |flags: &[&str], bytes: usize| {
        let mut sender = stdin_sender(&receiver.ticket, flags);
        // Refused before it is read.
        let _ = sender.stdin.take().unwrap().write_all(&content(bytes));
        (patiently(&mut sender), heard(&mut sender))
    };
    assert_eq!(send(&["--name", "archive"], 300_000), (Some(0), String::new()));
    assert!(fs::read(to.path().join("archive")).unwrap() == content(300_000));
    let (code, said) = send(&["--name", "archive"], 5);
    assert_eq!(code, Some(5), "{said}");
    for (flags, why) in [(&[][..], "--name"), (&["--name", "../up"], "..")] {
        let (code, said) = send(flags, 5);
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains(why) && said.lines().count() == 2, "{said}");
    }
    assert_eq!(names(to.path()), ["archive"]);
}

#[test]
fn a_broken_pipe_fails_at_both_ends() {
    let (mut receiver, ticket) = stdout_receiver();
    drop(receiver.stdout.take());
    let mut sender = stdin_sender(&ticket, &[]);
    let mut input = sender.stdin.take().unwrap();
    let writer = std::thread::spawn(move || while input.write_all(&[1; 10_000]).is_ok() {});
    assert_eq!((patiently(&mut sender), patiently(&mut receiver)), (Some(1), Some(1)));
    writer.join().unwrap();
    for child in [&mut sender, &mut receiver] {
        let said = heard(child);
        assert!(said.contains("cannot write to standard output"), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}

#[test]
fn a_sender_that_dies_is_no_end_of_the_stream() {
    let (mut receiver, ticket) = stdout_receiver();
    let mut sender = stdin_sender(&ticket, &[]);
    let mut input = sender.stdin.take().unwrap();
    input.write_all(b"begun").unwrap();
    let mut arrived = [0; 5];
    let mut output = receiver.stdout.take().unwrap();
    output.read_exact(&mut arrived).unwrap();
    kill(&sender, "-INT");
    assert_eq!(patiently(&mut sender), Some(130));
    assert_eq!(patiently(&mut receiver), Some(1));
    let said = heard(&mut receiver);
    assert!(said.contains("was interrupted") && said.contains("from the start"), "{said}");
    drop(input);
}

#[test]
fn files_are_refused_by_a_pipe_and_pipes_stand_alone() {
    let (mut receiver, ticket) = stdout_receiver();
    let from = tempfile::tempdir().unwrap();
    let file = from.path().join("f");
    fs::write(&file, b"1").unwrap();
    let output = send(&ticket, &[&file], &[]);
    assert_eq!(output.status.code(), Some(4));
    assert!(said(&output).contains("rc3 send - <FILE"), "{}", said(&output));
    let mut sender = stdin_sender(&ticket, &[]);
    drop(sender.stdin.take());
    assert_eq!((patiently(&mut sender), patiently(&mut receiver)), (Some(0), Some(0)), "it still waits");
    for words in
        [&["send", "-", "-"][..], &["send", "-", "f", &ticket], &["send", "--name", "n", "f", &ticket]]
    {
        assert_eq!(rc3().args(words).output().unwrap().status.code(), Some(2), "{words:?}");
    }
    let output = rc3().args(["recv", "--stdout", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
