//! `rc3 send` and `rc3 recv` as their users run them, over loopback.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// A receiver that runs; killed when the test ends.
struct Receiver {
    child: Child,
    out: BufReader<ChildStdout>,
    ticket: String,
}

impl Receiver {
    fn start(dir: &Path, flags: &[&str]) -> Self {
        let mut child = rc3()
            .args(["recv", "--quiet", "--listen", "127.0.0.1", "--dir"])
            .arg(dir)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the receiver starts");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut ticket = String::new();
        out.read_line(&mut ticket).expect("a ticket");
        Self { child, out, ticket: ticket.trim().to_owned() }
    }

    /// Waits for its end: its exit code, and what it said on standard error.
    fn finish(mut self) -> (Option<i32>, String) {
        let code = patiently(&mut self.child);
        let mut said = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "", "a quiet receiver prints nothing but the ticket");
        (code, said)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rc3() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rc3"));
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn send(ticket: &str, paths: &[&Path], flags: &[&str]) -> Output {
    rc3().arg("send").args(flags).args(paths).arg(ticket).output().expect("the sender starts")
}

/// A test should fail rather than hang.
fn patiently(child: &mut Child) -> Option<i32> {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it does not end");
}

/// Every path below `root` with its content; directories end in `/`.
fn tree(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for child in fs::read_dir(directory).expect("a directory") {
            let path = child.expect("an entry").path();
            let name = path.strip_prefix(root).expect("below").to_str().expect("text").to_owned();
            if path.is_dir() {
                found.push((name + "/", Vec::new()));
                open.push(path);
            } else {
                found.push((name, fs::read(path).expect("a file")));
            }
        }
    }
    found.sort();
    found
}

/// Bytes that no offset error leaves unchanged.
fn content(bytes: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes.to_le_bytes());
    let mut content = vec![0; bytes];
    hasher.finalize_xof().fill(&mut content);
    content
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

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
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("left out") && said(&output).contains("link"), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    let arrived = to.path().join("top/tool").metadata().unwrap();
    assert_ne!(arrived.permissions().mode() & 0o100, 0);
    assert_eq!(arrived.modified().unwrap(), then);
    assert!(to.path().join("top/link").symlink_metadata().is_err());
}

#[test]
fn existing_files_are_refused_without_force() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, b"new").unwrap();
    fs::write(to.path().join("file"), b"old").unwrap();

    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&file], &[]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(said(&output).contains("file exists at the receiver\nhint: "), "{}", said(&output));
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"old");
    drop(receiver);

    let receiver = Receiver::start(to.path(), &["--force"]);
    let output = send(&receiver.ticket, &[&file], &["--quiet"]);
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(tree(to.path()), [("file".to_owned(), b"new".to_vec())]);
}

/// The ticket with its code changed at one place: of its 79 letters the fingerprint ends in the 53rd.
fn altered(ticket: &str, letter: usize) -> String {
    let at = ticket.find('#').expect("a code") + 1 + letter;
    let other = if &ticket[at..=at] == "a" { "b" } else { "a" };
    format!("{}{other}{}", &ticket[..at], &ticket[at + 1..])
}

#[test]
fn senders_without_the_secret_are_turned_away() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, content(100_000)).unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&altered(&receiver.ticket, 60), &[&file], &[]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("secret"), "{}", said(&output));
    assert!(tree(to.path()).is_empty());
    // It is still there for the right one.
    assert!(send(&receiver.ticket, &[&file], &[]).status.success());
    assert_eq!(receiver.finish().0, Some(0));
}

#[test]
fn other_receivers_than_the_tickets_get_nothing() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, content(100_000)).unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&altered(&receiver.ticket, 20), &[&file], &[]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("not the receiver that made this ticket"), "{}", said(&output));
    assert!(tree(to.path()).is_empty());
}

/// A sender slow enough to be caught in the middle.
fn slow_sender(receiver: &Receiver, file: &Path, to: &Path) -> Child {
    let child = rc3()
        .args(["send", "--quiet", "--rate-limit", "20mbit"])
        .arg(file)
        .arg(&receiver.ticket)
        .stderr(Stdio::null())
        .spawn()
        .expect("the sender starts");
    let until = Instant::now() + Duration::from_secs(30);
    while !tree(to).iter().any(|(name, content)| name.ends_with(".rc3-part") && !content.is_empty()) {
        assert!(Instant::now() < until, "nothing arrives");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn wait_until_empty(directory: &Path) {
    let until = Instant::now() + Duration::from_secs(60);
    while !tree(directory).is_empty() {
        assert!(Instant::now() < until, "{:?} stays", tree(directory));
        assert!(tree(directory).iter().all(|(name, _)| name.ends_with(".rc3-part")));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn large_file(directory: &Path) -> PathBuf {
    let file = directory.join("large");
    fs::write(&file, content(50_000_000)).unwrap();
    file
}

#[test]
fn killed_sender_leaves_no_file() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    sender.kill().unwrap();
    sender.wait().unwrap();
    wait_until_empty(to.path());
    // The same ticket is good for another try.
    assert!(send(&receiver.ticket, &[&file], &[]).status.success());
    assert_eq!(receiver.finish().0, Some(0));
    assert!(fs::read(to.path().join("large")).unwrap() == fs::read(&file).unwrap());
}

#[cfg(unix)]
#[test]
fn interrupted_receiver_cleans_up_and_tells_the_sender() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    let pid = receiver.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(receiver.finish().0, Some(130));
    assert!(tree(to.path()).is_empty());
    assert_eq!(patiently(&mut sender), Some(1));
}

#[test]
fn file_that_became_shorter_is_an_error_on_both_sides() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    fs::File::options().write(true).open(&file).unwrap().set_len(10).unwrap();
    assert_eq!(patiently(&mut sender), Some(1));
    wait_until_empty(to.path());
}

#[test]
fn dry_run_lists_and_sends_nothing() {
    let from = tempfile::tempdir().unwrap();
    fs::create_dir(from.path().join("d")).unwrap();
    fs::write(from.path().join("d/f"), b"12345").unwrap();
    // A well-formed ticket of nobody.
    let ticket = format!("rc3://127.0.0.1:9/#ae{}", "a".repeat(77));
    let output = send(&ticket, &[&from.path().join("d")], &["--dry-run"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "d/\nd/f\n");
    assert!(said(&output).contains("5 B in 1 file"));
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
