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

/// Waits until so much of a file is in place that the receiver has written it down.
fn wait_for_record(directory: &Path) {
    let until = Instant::now() + Duration::from_secs(60);
    while !names(directory).iter().any(|name| name.ends_with("-record.rc3-part")) {
        assert!(Instant::now() < until, "nothing is written down");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
}

/// Sends the file of [`large_file`] and says how many bytes of it went over the network.
fn send_the_rest(receiver: Receiver, file: &Path, to: &Path) -> u64 {
    let output = send(&receiver.ticket, &[file], &["--json"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(names(to), ["large"]);
    assert!(fs::read(to.join("large")).unwrap() == fs::read(file).unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    let done: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let by_rlp = done["rlp_bytes"].as_array().unwrap().iter().map(|bytes| bytes.as_u64().unwrap());
    done["primary_bytes"].as_u64().unwrap() + by_rlp.sum::<u64>()
}

#[test]
fn killed_sender_leaves_no_file_and_another_goes_on_where_it_stopped() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    wait_for_record(to.path());
    // Some more than the first record.
    std::thread::sleep(Duration::from_secs(2));
    sender.kill().unwrap();
    sender.wait().unwrap();
    assert!(!to.path().join("large").exists());
    // The same ticket is good for another try, at once: it waits until the first is given up.
    let sent = send_the_rest(receiver, &file, to.path());
    assert!(sent < 49_000_000, "{sent} bytes sent again");
}

#[test]
fn killed_receiver_leaves_no_file_and_another_goes_on_where_it_stopped() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let mut receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    wait_for_record(to.path());
    std::thread::sleep(Duration::from_secs(2));
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
    // Changed, but for its length and time.
    let modified = file.metadata().unwrap().modified().unwrap();
    let mut changed = content(50_000_000);
    changed.iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(&file, changed).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&file], &[]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(names(to.path()).is_empty(), "{:?}", names(to.path()));
    // The next try is a whole one.
    assert!(send_the_rest(receiver, &file, to.path()) >= 50_000_000);
}

#[cfg(unix)]
#[test]
fn full_disk_is_an_error_on_both_sides_and_leaves_nothing() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    // A limit on the length of files stands in for a disk that fills up; in blocks of 1024 bytes.
    let script = "trap '' XFSZ; ulimit -f 20000; exec \"$0\" \"$@\"";
    let mut child = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_rc3"), "recv", "--listen", "127.0.0.1", "--dir"])
        .arg(to.path())
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut ticket = String::new();
    out.read_line(&mut ticket).unwrap();
    let mut receiver = Receiver { child, out, ticket: ticket.trim().to_owned() };
    let output = send(&receiver.ticket, &[&file], &["--quiet"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("the other side failed: cannot write large: "), "{}", said(&output));
    assert_eq!(said(&output).lines().count(), 2, "{}", said(&output));
    wait_until_empty(to.path());
    // It waits for another try, of something smaller.
    let small = from.path().join("small");
    fs::write(&small, content(100_000)).unwrap();
    assert!(send(&receiver.ticket, &[&small], &[]).status.success());
    assert_eq!(patiently(&mut receiver.child), Some(0));
    let mut heard = String::new();
    receiver.child.stderr.take().unwrap().read_to_string(&mut heard).unwrap();
    assert!(
        heard.contains("rc3: cannot write large: ") && heard.contains("hint: check free space"),
        "{heard}"
    );
    assert_eq!(names(to.path()), ["small"]);
}

#[test]
fn file_that_grows_arrives_as_it_was_announced() {
    use std::io::Write;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("large");
    fs::write(&file, content(5_000_000)).unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    fs::File::options().append(true).open(&file).unwrap().write_all(&content(1_000_000)).unwrap();
    assert_eq!(patiently(&mut sender), Some(0));
    assert_eq!(receiver.finish().0, Some(0));
    assert!(fs::read(to.path().join("large")).unwrap() == content(5_000_000));
}

#[cfg(unix)]
#[test]
fn interrupted_sender_says_so_and_the_receiver_waits_on() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = large_file(from.path());
    let receiver = Receiver::start(to.path(), &[]);
    let mut sender = slow_sender(&receiver, &file, to.path());
    let pid = sender.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(patiently(&mut sender), Some(130));
    assert!(!to.path().join("large").exists());
    send_the_rest(receiver, &file, to.path());
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
