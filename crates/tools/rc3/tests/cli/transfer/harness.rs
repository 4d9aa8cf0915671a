//! Receivers and senders as processes, and checks of what they leave.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::{Duration, Instant},
};

pub(crate) use crate::support::{rc3, said, tree, unknowing, wait_until};

/// A running receiver; killed when the test ends.
pub(crate) struct Receiver {
    pub(crate) child: Child,
    pub(crate) out: BufReader<ChildStdout>,
    pub(crate) ticket: String,
}

impl Receiver {
    /// One that prints only its ticket and errors.
    pub(crate) fn start(dir: &Path, flags: &[&str]) -> Self {
        Self::run(rc3(), dir, &[&["--quiet"], flags].concat())
    }

    /// Adds the arguments of a receiver to a command that ends in `rc3`.
    pub(crate) fn run(mut command: Command, dir: &Path, flags: &[&str]) -> Self {
        let mut child = command
            .args(["recv", "--listen", "127.0.0.1", "--dir"])
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

    /// Waits for its end and returns its standard error.
    pub(crate) fn finish_loud(mut self) -> String {
        patiently(&mut self.child);
        heard(&mut self.child)
    }

    /// Waits for its end and returns its exit code and standard error.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        let code = patiently(&mut self.child);
        let said = heard(&mut self.child);
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

/// Runs a shell script with a loopback interface of its own, `$1` as this command and further arguments. `None`, which is
/// reported, where users may not do that.
#[cfg(target_os = "linux")]
pub(crate) fn in_own_network(script: &str, arguments: &[&Path]) -> Option<Output> {
    let script = format!("ip link set lo up || exit 99\n{script}");
    let mut command = Command::new("unshare");
    command.args(["-rn", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_rc3")]).args(arguments);
    let output = unknowing(&mut command).output();
    let Some(output) = output.ok().filter(|output| output.status.code() != Some(99)) else {
        crate::skip::skipped("`unshare` with user namespaces, and `ip`");
        return None;
    };
    if said(&output).contains("unshare failed") {
        crate::skip::skipped("user namespaces");
        return None;
    }
    Some(output)
}

pub(crate) fn send(ticket: &str, paths: &[&Path], flags: &[&str]) -> Output {
    rc3().arg("send").args(flags).args(paths).arg(ticket).output().expect("the sender starts")
}

/// A test fails instead of hanging.
pub(crate) fn patiently(child: &mut Child) -> Option<i32> {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it does not end");
}

/// Bytes that no offset error leaves unchanged.
pub(crate) fn content(bytes: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes.to_le_bytes());
    let mut content = vec![0; bytes];
    hasher.finalize_xof().fill(&mut content);
    content
}

/// The standard error of a process with a pipe for it.
pub(crate) fn heard(child: &mut Child) -> String {
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    said
}

/// A sender slow enough to be interrupted.
pub(crate) fn slow_sender(receiver: &Receiver, file: &Path, to: &Path) -> Child {
    let child = rc3()
        // Either end that is killed counts as gone soon.
        .args(["send", "--quiet", "--rate-limit", "40mbit", "--give-up-after", "2s"])
        .arg(file)
        .arg(&receiver.ticket)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the sender starts");
    wait_for_bytes(to, 1);
    child
}

/// Bytes below a directory, whole files and parts.
pub(crate) fn arrived_bytes(directory: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        // A part may be renamed at any moment.
        bytes += match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => arrived_bytes(&path),
            Ok(metadata) if !path.to_string_lossy().contains("-record") => stored_bytes(&metadata),
            _ => 0,
        };
    }
    bytes
}

/// Without the holes of a file.
#[cfg(unix)]
fn stored_bytes(metadata: &fs::Metadata) -> u64 {
    metadata.len().min(512 * std::os::unix::fs::MetadataExt::blocks(metadata))
}

#[cfg(not(unix))]
fn stored_bytes(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

pub(crate) fn large_file(directory: &Path) -> PathBuf {
    let file = directory.join("large");
    fs::write(&file, content(50_000_000)).unwrap();
    file
}

/// Waits until this many bytes have arrived.
pub(crate) fn wait_for_bytes(directory: &Path, bytes: u64) {
    wait_until("too little arrives", || arrived_bytes(directory) >= bytes);
}

/// Waits until this many bytes of a file are in place and recorded.
pub(crate) fn wait_for_record_of(directory: &Path, bytes: u64) {
    wait_for_bytes(directory, bytes);
    // The next record has them.
    let before = record(directory);
    wait_until("nothing more is written down", || record(directory).is_some_and(|now| Some(now) != before));
}

/// The receiver's record of a file.
fn record(directory: &Path) -> Option<Vec<u8>> {
    let name = names(directory).into_iter().find(|name| name.ends_with("-record.rc3-part"))?;
    fs::read(directory.join(name)).ok()
}

/// Waits until enough of a file is in place that the receiver has recorded it.
pub(crate) fn wait_for_record(directory: &Path) {
    /// The length of a record with nothing in place.
    const RECORD_BYTES: u64 = 80;
    let written = |name: &String| {
        let record = name.ends_with("-record.rc3-part");
        record && directory.join(name).metadata().is_ok_and(|metadata| metadata.len() > RECORD_BYTES)
    };
    wait_until("nothing is written down", || names(directory).iter().any(written));
}

/// The names in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
}

/// Sends the file of [`large_file`] and returns how many of its bytes went over the network.
pub(crate) fn send_the_rest(receiver: Receiver, file: &Path, to: &Path) -> u64 {
    let output = send(&receiver.ticket, &[file], &["--json"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(names(to), ["large"]);
    assert!(fs::read(to.join("large")).unwrap() == fs::read(file).unwrap());
    carried(&output)
}

/// The last event of a command with `--json`.
pub(crate) fn last_event(output: &Output) -> serde_json::Value {
    let text = std::str::from_utf8(&output.stdout).expect("text");
    serde_json::from_str(text.lines().last().expect("an event")).expect("JSON")
}

/// Bytes that a sender with `--json` sent over the network, including the control stream.
pub(crate) fn carried(output: &Output) -> u64 {
    let done = last_event(output);
    let by_rlp =
        done["rlp_bytes"].as_array().expect("levels").iter().map(|bytes| bytes.as_u64().expect("bytes"));
    done["primary_bytes"].as_u64().expect("bytes") + by_rlp.sum::<u64>()
}

/// Sends a signal, `-INT` for example.
#[cfg(unix)]
pub(crate) fn kill(child: &Child, signal: &str) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(status.expect("kill").success());
}

/// Checks that two trees have the same names, content, permission bits and times.
#[cfg(unix)]
pub(crate) fn assert_same(one: &Path, other: &Path) {
    assert!(tree(one) == tree(other), "different content");
    for (name, _) in tree(one) {
        let of = |root: &Path| {
            let metadata = root.join(&name).symlink_metadata().expect("it exists");
            let mode = std::os::unix::fs::MetadataExt::mode(&metadata);
            (mode & 0o7777, metadata.modified().expect("a time"))
        };
        assert_eq!(of(one), of(other), "{name}");
    }
}
