//! Interrupts both ends at random moments in all ways, and runs the same two commands again.
//!
//! One moment by default. For the full test run `RC3_MOMENTS=20 RC3_SMALL_FILES=5000 RC3_BYTES=40000000 cargo test -p
//! rc3 --test cli transfer::random_moments -- --nocapture`. It prints a table row for each case: moments, moments in the
//! middle of the transfer, moments after which everything was equal and no part was left, bytes sent again (mean, max),
//! bytes of the whole, parts that the interruption left (max). `RC3_SEED` chooses other moments, `RC3_BYTES` how many
//! bytes a subject has, `RC3_SMALL_FILES` the number of small files beside the three large ones.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant, UNIX_EPOCH},
};

use super::harness::*;
use crate::skip::skipped;

/// A receiver serves the next sender once a killed one counts as gone.
const IDLE_TIMEOUT: &str = "2s";
/// Of the run that is interrupted.
const RATE_LIMIT: &str = "80mbit";
/// Approximate bytes to send, by default: almost a second at the rate limit.
const BYTES: usize = 8_000_000;

#[derive(Debug, Clone, Copy)]
enum End {
    Receiver,
    Sender,
}

#[derive(Debug, Clone, Copy)]
enum Subject {
    File,
    Folder,
}

impl Subject {
    fn make(self, root: &Path) -> PathBuf {
        let top = root.join("subject");
        match self {
            Self::File => fs::write(&top, content(bytes())).unwrap(),
            Self::Folder => {
                fs::create_dir_all(top.join("a/b")).unwrap();
                fs::create_dir(top.join("empty")).unwrap();
                for large in ["a/large", "a/b/large", "last"] {
                    fs::write(top.join(large), content(bytes() / 6 + large.len())).unwrap();
                }
                let files = number("RC3_SMALL_FILES", 40);
                for number in 0..files {
                    let path = top.join(format!("a/b/{number}"));
                    fs::write(&path, content(bytes() / 2 / files + number % 97)).unwrap();
                    let mode = [0o644, 0o600, 0o755, 0o400][number % 4];
                    fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
                    date(&path, number as u64);
                }
                fs::set_permissions(top.join("a/large"), PermissionsExt::from_mode(0o640)).unwrap();
                fs::set_permissions(top.join("a/b"), PermissionsExt::from_mode(0o500)).unwrap();
                for (at, name) in ["a/large", "a/b", "empty", "a", ""].iter().enumerate() {
                    date(&top.join(name), 100 + at as u64);
                }
            }
        }
        top
    }
}

/// Sets a time of last change in the past.
fn date(path: &Path, number: u64) {
    let time = UNIX_EPOCH + Duration::new(1_000_000_000 + number, 500);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// Numbers that look random, the same for the same seed and case.
struct Moments(blake3::OutputReader);

impl Moments {
    fn new(case: &str) -> Self {
        let seed = env::var("RC3_SEED").unwrap_or_else(|_| "1".to_owned());
        Self(blake3::Hasher::new().update(format!("{seed} {case}").as_bytes()).finalize_xof())
    }

    /// From 0 to below 1.
    fn next(&mut self) -> f64 {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// A command; killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A pair of commands, and their directories.
struct Stage {
    from: tempfile::TempDir,
    subject: PathBuf,
    /// As the receiver sees it.
    to: PathBuf,
    /// Prefix of the receiver's command.
    prefix: Vec<String>,
    ticket: PathBuf,
}

impl Stage {
    fn new(subject: Subject, to: PathBuf) -> Self {
        let from = tempfile::tempdir().unwrap();
        let inside = from.path().join("from");
        fs::create_dir(&inside).unwrap();
        let subject = subject.make(&inside);
        Self { subject, to, prefix: Vec::new(), ticket: from.path().join("ticket"), from }
    }

    fn receive(&self) -> Running {
        let program = env!("CARGO_BIN_EXE_rc3");
        let words = [program, "recv", "--quiet", "--listen", "127.0.0.1", "--give-up-after", IDLE_TIMEOUT];
        let words = words.into_iter().chain(["--ticket-file"]);
        let mut words = self.prefix.iter().map(String::as_str).chain(words);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).arg(&self.ticket).arg("--dir").arg(&self.to);
        let child = unknowing(&mut command).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let child = Running(child);
        let until = Instant::now() + Duration::from_secs(30);
        while !self.ticket.exists() {
            assert!(Instant::now() < until, "no ticket");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    fn sender(&self, flags: &[&str]) -> Command {
        let mut command = rc3();
        command
            .args(["send", "--json"])
            .args(flags)
            .arg("--ticket-file")
            .arg(&self.ticket)
            .arg(&self.subject);
        command
    }

    fn begin_to_send(&self) -> Running {
        Running(self.sender(&["--rate-limit", RATE_LIMIT]).stdout(Stdio::null()).spawn().unwrap())
    }

    /// How long a run takes that nobody interrupts, into another directory.
    fn takes(subject: Subject) -> Duration {
        let to = tempfile::tempdir().unwrap();
        let stage = Self::new(subject, to.path().to_owned());
        let mut receiver = stage.receive();
        let began = Instant::now();
        assert_eq!(patiently(&mut stage.begin_to_send().0), Some(0));
        let took = began.elapsed();
        assert_eq!(patiently(&mut receiver.0), Some(0));
        took
    }

    /// Sends until everything has arrived, and returns how many bytes that took.
    fn send_again(&self) -> u64 {
        let output: Output = self.sender(&[]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        carried(&output)
    }
}

/// Results of one case.
struct Row {
    case: String,
    again: Vec<u64>,
    /// Moments at which some bytes had arrived, but not all.
    in_the_middle: u64,
    total: u64,
    /// Most parts and records that an interruption left.
    parts: usize,
}

impl Row {
    fn new(case: String) -> Self {
        Self { case, again: Vec::new(), in_the_middle: 0, total: 0, parts: 0 }
    }

    /// Checks that everything arrived and no part is left, and counts bytes sent twice.
    fn add(&mut self, stage: &Stage, seen: &Path, left: Left, sent: u64) {
        let inside = stage.from.path().join("from");
        self.total = arrived_bytes(&inside);
        assert_same(&inside, seen);
        self.in_the_middle += u64::from(0 < left.bytes && left.bytes < self.total);
        self.again.push((left.bytes.min(self.total) + sent).saturating_sub(self.total));
        self.parts = self.parts.max(left.parts);
    }

    fn print(&self) {
        let moments = self.again.len() as u64;
        let (mean, max) = (self.again.iter().sum::<u64>() / moments.max(1), self.again.iter().max());
        println!(
            "| {} | {moments} | {} | {moments} | {mean} | {} | {} | {} |",
            self.case,
            self.in_the_middle,
            max.copied().unwrap_or_default(),
            self.total,
            self.parts
        );
    }
}

/// What an interruption leaves at the receiver.
struct Left {
    bytes: u64,
    parts: usize,
}

impl Left {
    fn at(directory: &Path) -> Self {
        Self { bytes: arrived_bytes(directory), parts: parts(directory) }
    }
}

/// Parts and records below a directory.
fn parts(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let count = |path: &Path| usize::from(path.to_string_lossy().ends_with(".rc3-part"));
    entries.map(|entry| entry.path()).map(|path| count(&path) + parts(&path)).sum()
}

/// A number in the environment.
fn number(variable: &str, default: usize) -> usize {
    env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

fn moments() -> usize {
    number("RC3_MOMENTS", 1)
}

fn bytes() -> usize {
    number("RC3_BYTES", BYTES)
}

fn interrupt(end: End, signal: &str, subject: Subject) {
    let mut row = Row::new(format!("{end:?}, {signal}, {subject:?}"));
    let mut random = Moments::new(&row.case);
    let takes = Stage::takes(subject);
    for _ in 0..moments() {
        let to = tempfile::tempdir().unwrap();
        let stage = Stage::new(subject, to.path().to_owned());
        let mut receiver = stage.receive();
        let mut sender = stage.begin_to_send();
        std::thread::sleep(takes.mul_f64(random.next()));
        let victim = match end {
            End::Receiver => &receiver.0,
            End::Sender => &sender.0,
        };
        kill(victim, signal);
        if matches!(end, End::Receiver) {
            patiently(&mut receiver.0);
            // A sender whose receiver was killed would wait ten seconds.
            let _ = sender.0.kill();
        }
        patiently(&mut sender.0);
        let left = Left::at(to.path());
        // The ticket file of a killed receiver stays; the next one replaces it.
        if matches!(end, End::Receiver) || ends_soon(&mut receiver.0, &stage) {
            let _ = fs::remove_file(&stage.ticket);
            receiver = stage.receive();
        }
        let sent = stage.send_again();
        assert_eq!(patiently(&mut receiver.0), Some(0));
        row.add(&stage, to.path(), left, sent);
    }
    row.print();
}

/// Whether a receiver has everything and thus exits, even if its sender does not know it.
fn ends_soon(receiver: &mut Child, stage: &Stage) -> bool {
    let until = Instant::now() + Duration::from_secs(8);
    // It may still be renaming files, so names that it removes meanwhile are no error.
    let arrived = |(name, content): (String, Vec<u8>)| {
        let path = stage.to.join(&name);
        if name.ends_with('/') { path.is_dir() } else { fs::read(path).is_ok_and(|read| read == content) }
    };
    // What the sender had sent may still be on its way.
    let under_way = Instant::now() + Duration::from_secs(1);
    let is_complete = || tree(&stage.from.path().join("from")).into_iter().all(arrived);
    while Instant::now() < if is_complete() { until } else { under_way }
        && receiver.try_wait().unwrap().is_none()
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    receiver.try_wait().unwrap().is_some()
}

/// A small file system in its own mount namespace, which lasts as long as its process.
struct SmallDisk {
    holder: Child,
    directory: tempfile::TempDir,
}

impl SmallDisk {
    /// Its size in bytes: enough for small files that take whole blocks.
    fn bytes() -> usize {
        8 * bytes()
    }

    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let script = "mount -t tmpfs -o size=$1 tmpfs \"$0\" && echo ready && exec sleep 600";
        let mut holder = Command::new("unshare")
            .args(["-m", "sh", "-c", script])
            .arg(directory.path())
            .arg(Self::bytes().to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(holder.stdout.take()?).read_line(&mut line).ok()?;
        let disk = Self { holder, directory };
        (line == "ready\n").then_some(disk)
    }

    /// The prefix of a command that runs where the file system is mounted.
    fn enter(&self) -> Vec<String> {
        ["nsenter", "-t", &self.holder.id().to_string(), "-m", "--"].map(str::to_owned).to_vec()
    }

    /// Its path from outside.
    fn seen(&self) -> PathBuf {
        let mut path = format!("/proc/{}/root", self.holder.id());
        path += self.directory.path().to_str().expect("text");
        path.into()
    }

    /// Fills the rest of the disk.
    fn fill(&self) {
        let mut filler = fs::File::create(self.seen().join("filler")).expect("a filler");
        for size in [1 << 16, 1 << 12] {
            while filler.write(&vec![7; size]).is_ok_and(|written| written > 0) {}
        }
    }

    fn empty(&self) {
        fs::remove_file(self.seen().join("filler")).expect("a filler");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn fill_the_disk(subject: Subject) {
    let mut row = Row::new(format!("Receiver, full disk, {subject:?}"));
    let mut random = Moments::new(&row.case);
    for _ in 0..moments() {
        let Some(disk) = SmallDisk::new() else {
            skipped(&format!("root, `unshare` and `mount`: {}", row.case));
            return;
        };
        let (to, seen) = (disk.directory.path().join("to"), disk.seen().join("to"));
        fs::create_dir(&seen).unwrap();
        let mut stage = Stage::new(subject, to);
        stage.prefix = disk.enter();
        let mut receiver = stage.receive();
        let sender = stage.sender(&["--rate-limit", "40mbit"]).stdout(Stdio::piped()).spawn().unwrap();
        // A sender whose events nobody reads would wait when the pipe is full.
        let sender = std::thread::spawn(|| sender.wait_with_output());
        wait_for_bytes(&seen, (bytes() as f64 * 0.6 * random.next()) as u64 + 1);
        disk.fill();
        let output = sender.join().expect("a thread").unwrap();
        assert_eq!(output.status.code(), Some(1), "the disk was large enough");
        let error = last_event(&output);
        assert!(error["message"].as_str().unwrap().contains("No space left"), "{error}");
        let left = Left::at(&seen);
        // While it is full, nothing begins.
        let output = stage.sender(&[]).output().unwrap();
        let error = last_event(&output);
        assert!(error["message"].as_str().unwrap().contains("needed"), "{error}");
        disk.empty();
        let sent = stage.send_again();
        assert_eq!(patiently(&mut receiver.0), Some(0));
        row.add(&stage, &seen, left, sent);
    }
    row.print();
}

/// At the same time: these tests wait more than they work.
fn both(case: impl Fn(Subject) + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(|| case(Subject::File));
        case(Subject::Folder);
    });
}

#[test]
fn receivers_killed_go_on() {
    both(|subject| interrupt(End::Receiver, "-KILL", subject));
}

#[test]
fn receivers_interrupted_go_on() {
    both(|subject| interrupt(End::Receiver, "-INT", subject));
}

#[test]
fn receivers_terminated_go_on() {
    both(|subject| interrupt(End::Receiver, "-TERM", subject));
}

#[test]
fn receivers_with_a_full_disk_go_on() {
    both(fill_the_disk);
}

#[test]
fn senders_killed_go_on() {
    both(|subject| interrupt(End::Sender, "-KILL", subject));
}

#[test]
fn senders_interrupted_go_on() {
    both(|subject| interrupt(End::Sender, "-INT", subject));
}

#[test]
fn senders_terminated_go_on() {
    both(|subject| interrupt(End::Sender, "-TERM", subject));
}
