//! Both sides of a tunnel as processes, and TCP servers as targets.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A command; killed when the test ends.
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the command starts");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        let (sender, lines) = channel();
        thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// The next line on standard error that contains this text.
    pub(crate) fn line_with(&self, text: &str) -> String {
        let (until, mut seen) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no line with {text:?} in {seen:?}")
                }
            }
        }
    }

    /// The address after `listening on` or `listens on` in the next such line.
    pub(crate) fn address(&self) -> SocketAddr {
        let line = self.line_with(" for ");
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().position(|&word| word == "on").expect("an address");
        words[at + 1].parse().expect("an address")
    }

    /// Waits for its end; returns the exit code and the rest of standard error.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                let rest: Vec<String> = self.lines.iter().collect();
                return (status.code(), rest.join("\n"));
            }
            assert!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Resident memory in kB.
    #[cfg(target_os = "linux")]
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The side that listens, and its ticket.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) ticket: String,
    pub(crate) address: SocketAddr,
    /// The line that names the address of the metrics.
    pub(crate) metrics: Option<String>,
    pub(crate) state: TempDir,
}

impl Server {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().expect("a directory"), flags)
    }

    pub(crate) fn start_in(state: TempDir, flags: &[&str]) -> Self {
        let mut command = rc3(state.path());
        let at: &[_] = if flags.contains(&"--bind") { &[] } else { &["--bind", "127.0.0.1:0"] };
        command.arg("--listen").args(at).args(flags).stdout(Stdio::piped());
        let mut process = Process::start(command);
        let metrics = flags.contains(&"--metrics").then(|| process.line_with("metrics are at"));
        let address = process.line_with("listening on UDP").rsplit(' ').next().map(str::parse);
        let address = address.expect("an address").expect("an address");
        let mut ticket = String::new();
        if !flags.contains(&"--no-ticket") {
            let mut out = BufReader::new(process.child.stdout.take().expect("piped"));
            out.read_line(&mut ticket).expect("a ticket");
        }
        Self { process, ticket: ticket.trim().to_owned(), address, metrics, state }
    }
}

/// The side that connects, with a new identity.
pub(crate) struct Client {
    pub(crate) process: Process,
    _state: TempDir,
}

impl Client {
    /// Connects by the server's ticket.
    pub(crate) fn start(server: &Server, flags: &[&str]) -> Self {
        let state = tempfile::tempdir().expect("a directory");
        let mut command = rc3(state.path());
        command.args(flags).env("RC3_TICKET", &server.ticket);
        Self { process: Process::start(command), _state: state }
    }
}

/// A command whose standard input and output are a stream.
pub(crate) fn stdio(state: &Path, flags: &[&str], ticket: Option<&str>) -> Process {
    let mut command = rc3(state);
    command.args(flags).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(ticket) = ticket {
        command.env("RC3_TICKET", ticket);
    }
    Process::start(command)
}

/// `rc3 tunnel` with this state, without the memory of paths.
pub(crate) fn rc3(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rc3"));
    command.env_remove("RUST_LOG").env_remove("RC3_TICKET").stdin(Stdio::null());
    command.arg("tunnel").arg("--no-path-memory").arg("--state").arg(state);
    command
}

/// A TCP server that serves each connection in a thread.
pub(crate) fn target(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A TCP server that returns what it gets, and ends when its client has ended.
pub(crate) fn echo() -> SocketAddr {
    target(|stream| {
        let _ = stream.set_nodelay(true);
        let _ = io::copy(&mut &stream, &mut &stream);
        let _ = stream.shutdown(Shutdown::Write);
    })
}

/// `[127.0.0.1:0:]` and a target, for -L and -R.
pub(crate) fn forward(target: SocketAddr) -> String {
    format!("127.0.0.1:0:{target}")
}

/// Sends, ends, and reads to the end.
pub(crate) fn ask(address: SocketAddr, question: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    let mut writer = stream.try_clone().expect("a handle");
    let question = question.to_vec();
    let writing = thread::spawn(move || {
        let _ = writer.write_all(&question);
        let _ = writer.shutdown(Shutdown::Write);
    });
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    writing.join().expect("it ends");
    answer
}

/// The metrics at the address in this log.
pub(crate) fn scrape(log: &str) -> String {
    let (_, address) = log.split_once("metrics are at http://").expect("an address");
    let (address, _) = address.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_nodelay(true).expect("no delay");
    stream
}

/// Bytes that no offset error leaves unchanged.
pub(crate) fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    let mut content = vec![0; bytes];
    hasher.finalize_xof().fill(&mut content);
    content
}
