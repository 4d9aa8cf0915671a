//! Interrupts both ends at random moments in all ways, and runs the same two commands again.
//!
//! A few moments by default. For the full test run `RC3_MOMENTS=20 cargo test -p rc3 --test transfer random_moments --
//! --nocapture`. It prints a table row for each case: moments, moments in the middle of the transfer, moments after
//! which everything was equal, bytes sent again (mean, max), bytes of the whole. `RC3_SEED` chooses other moments.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::{harness::*, skip::skipped};

/// Approximate bytes to send.
const BYTES: usize = 12_000_000;
/// Approximate duration of the first run, set by the rate limit.
const TAKES: Duration = Duration::from_millis(1300);

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
            Self::File => fs::write(&top, content(BYTES)).unwrap(),
            Self::Folder => {
                fs::create_dir_all(top.join("a/b")).unwrap();
                fs::create_dir(top.join("empty")).unwrap();
                fs::write(top.join("a/large"), content(BYTES / 2)).unwrap();
                for number in 0..40 {
                    fs::write(top.join(format!("a/b/{number}")), content(BYTES / 80 + number)).unwrap();
                }
            }
        }
        top
    }
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

    fn receive(&self) -> Child {
        let words = [env!("CARGO_BIN_EXE_rc3"), "recv", "--quiet", "--listen", "127.0.0.1", "--ticket-file"];
        let mut words = self.prefix.iter().map(String::as_str).chain(words);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).arg(&self.ticket).arg("--dir").arg(&self.to);
        let child = unknowing(&mut command).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
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

    fn begin_to_send(&self) -> Child {
        self.sender(&["--rate-limit", "80mbit"]).stdout(Stdio::null()).spawn().unwrap()
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
}

impl Row {
    fn new(case: String) -> Self {
        Self { case, again: Vec::new(), in_the_middle: 0, total: 0 }
    }

    /// Checks that everything arrived, and counts bytes sent twice.
    fn add(&mut self, stage: &Stage, seen: &Path, arrived: u64, sent: u64) {
        let inside = stage.from.path().join("from");
        self.total = arrived_bytes(&inside);
        let same = tree(&inside) == tree(seen);
        assert!(same, "{}, moment {}: different from the source", self.case, self.again.len());
        self.in_the_middle += u64::from(0 < arrived && arrived < self.total);
        self.again.push((arrived.min(self.total) + sent).saturating_sub(self.total));
    }

    fn print(&self) {
        let moments = self.again.len() as u64;
        let (mean, max) = (self.again.iter().sum::<u64>() / moments.max(1), self.again.iter().max());
        println!(
            "| {} | {moments} | {} | {moments} | {mean} | {} | {} |",
            self.case,
            self.in_the_middle,
            max.copied().unwrap_or_default(),
            self.total
        );
    }
}

fn moments() -> u32 {
    env::var("RC3_MOMENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

fn interrupt(end: End, signal: &str, subject: Subject) {
    let mut row = Row::new(format!("{end:?}, {signal}, {subject:?}"));
    let mut random = Moments::new(&row.case);
    for _ in 0..moments() {
        let to = tempfile::tempdir().unwrap();
        let stage = Stage::new(subject, to.path().to_owned());
        let mut receiver = stage.receive();
        let mut sender = stage.begin_to_send();
        std::thread::sleep(TAKES.mul_f64(random.next()));
        let victim = match end {
            End::Receiver => &receiver,
            End::Sender => &sender,
        };
        kill(victim, signal);
        if matches!(end, End::Receiver) {
            patiently(&mut receiver);
            // A sender whose receiver was killed would wait ten seconds.
            let _ = sender.kill();
        }
        patiently(&mut sender);
        let arrived = arrived_bytes(to.path());
        // The ticket file of a killed receiver stays; the next one replaces it.
        if matches!(end, End::Receiver) || ends_soon(&mut receiver, &stage) {
            let _ = fs::remove_file(&stage.ticket);
            receiver = stage.receive();
        }
        let sent = stage.send_again();
        assert_eq!(patiently(&mut receiver), Some(0));
        row.add(&stage, to.path(), arrived, sent);
    }
    row.print();
}

/// Whether a receiver has everything and thus exits, even if its sender does not know it.
fn ends_soon(receiver: &mut Child, stage: &Stage) -> bool {
    let until = Instant::now() + Duration::from_secs(8);
    let complete = tree(&stage.from.path().join("from")) == tree(&stage.to);
    while complete && Instant::now() < until && receiver.try_wait().unwrap().is_none() {
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
    fn new(bytes: u64) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let script = "mount -t tmpfs -o size=$1 tmpfs \"$0\" && echo ready && exec sleep 600";
        let mut holder = Command::new("unshare")
            .args(["-m", "sh", "-c", script])
            .arg(directory.path())
            .arg(bytes.to_string())
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

    fn grow(&self) {
        let enter = self.enter();
        let grown = Command::new(&enter[0])
            .args(&enter[1..])
            .args(["mount", "-o", "remount,size=100m"])
            .arg(self.directory.path())
            .status();
        assert!(grown.unwrap().success());
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
        let size = (BYTES as f64 * (0.01 + 0.95 * random.next())) as u64;
        let Some(disk) = SmallDisk::new(size) else {
            skipped(&format!("root, `unshare` and `mount`: {}", row.case));
            return;
        };
        let mut stage = Stage::new(subject, disk.directory.path().to_owned());
        stage.prefix = disk.enter();
        let mut receiver = stage.receive();
        let output = stage.sender(&["--rate-limit", "80mbit"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "the disk was large enough");
        let error = last_event(&output);
        assert!(error["message"].as_str().unwrap().contains("No space left"), "{error}");
        let arrived = arrived_bytes(&disk.seen());
        // Less than a few groups cannot be resumed.
        assert!(arrived >= size.saturating_sub(2_000_000) / 2, "{arrived} of {size} bytes are kept");
        disk.grow();
        let sent = stage.send_again();
        assert_eq!(patiently(&mut receiver), Some(0));
        row.add(&stage, &disk.seen(), arrived, sent);
    }
    row.print();
}

#[test]
fn receivers_killed_go_on() {
    interrupt(End::Receiver, "-KILL", Subject::File);
    interrupt(End::Receiver, "-KILL", Subject::Folder);
}

#[test]
fn receivers_interrupted_go_on() {
    interrupt(End::Receiver, "-INT", Subject::File);
    interrupt(End::Receiver, "-INT", Subject::Folder);
}

#[test]
fn receivers_terminated_go_on() {
    interrupt(End::Receiver, "-TERM", Subject::File);
    interrupt(End::Receiver, "-TERM", Subject::Folder);
}

#[test]
fn receivers_with_a_full_disk_go_on() {
    fill_the_disk(Subject::File);
    fill_the_disk(Subject::Folder);
}

#[test]
fn senders_killed_go_on() {
    interrupt(End::Sender, "-KILL", Subject::File);
    interrupt(End::Sender, "-KILL", Subject::Folder);
}

#[test]
fn senders_interrupted_go_on() {
    interrupt(End::Sender, "-INT", Subject::File);
    interrupt(End::Sender, "-INT", Subject::Folder);
}

#[test]
fn senders_terminated_go_on() {
    interrupt(End::Sender, "-TERM", Subject::File);
    interrupt(End::Sender, "-TERM", Subject::Folder);
}
