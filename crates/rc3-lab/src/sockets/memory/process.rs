//! A process of this program: its memory, its CPU time, how often it wakes up.

use std::{
    fmt, fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use super::Result;

/// Ends with the value.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program with `words`.
    pub(crate) fn start(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("a child without input")?;
        let output = BufReader::new(child.stdout.take().ok_or("a child without output")?);
        Ok(Self { child, input, output })
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(format!("{:?} ended early", self.child.wait()?).into());
        }
        Ok(line.trim().to_owned())
    }

    /// Gives it a line; returns the one that it prints then.
    pub(crate) fn ask(&mut self, command: &str) -> Result<String> {
        writeln!(self.input, "{command}")?;
        self.line()
    }

    /// Bytes of its memory that are in RAM.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        Ok(field(&status, "VmRSS:")? * 1024)
    }

    /// What it has used so far.
    pub(crate) fn usage(&self) -> Result<Usage> {
        let proc = format!("/proc/{}", self.child.id());
        let stat = fs::read_to_string(format!("{proc}/stat"))?;
        // proc(5): fields 14 and 15, counted behind the name, which is in parentheses.
        let (_, fields) = stat.rsplit_once(')').ok_or("a line of /proc that cannot be read")?;
        let ticks: u64 =
            fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        let per_second = rustix::param::clock_ticks_per_second();
        let cpu = Duration::from_secs_f64(ticks as f64 / per_second as f64);
        let mut wake_ups = 0;
        for thread in fs::read_dir(format!("{proc}/task"))? {
            let status = fs::read_to_string(thread?.path().join("status"))?;
            wake_ups += field(&status, "voluntary_ctxt_switches:")?;
        }
        Ok(Usage { cpu, wake_ups, wall: Duration::ZERO, at: Instant::now() })
    }
}

/// The number on the line of `status` that begins with `name` (proc(5)).
fn field(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("no {name} in a status of /proc"))?.parse()?)
}

impl Drop for Process {
    fn drop(&mut self) {
        // Gone already, if this fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a process, and how often its threads went to sleep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    cpu: Duration,
    wake_ups: u64,
    /// In which time.
    wall: Duration,
    at: Instant,
}

impl Usage {
    /// From `before` until this.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            wake_ups: self.wake_ups.saturating_sub(before.wake_ups),
            wall: self.at - before.at,
            ..self
        }
    }

    /// CPU time per second.
    pub(crate) fn cores(self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64()
    }

    /// Wake-ups per second.
    pub(crate) fn wake_ups(self) -> f64 {
        self.wake_ups as f64 / self.wall.as_secs_f64()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4} cores, {:.1} wake-ups per second", self.cores(), self.wake_ups())
    }
}

/// Memory of the two processes, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resident {
    pub(crate) server: u64,
    pub(crate) client: u64,
}

impl Resident {
    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            server: self.server.saturating_sub(other.server),
            client: self.client.saturating_sub(other.client),
        }
    }

    /// For each of `count`.
    pub(crate) fn over(self, count: usize) -> Self {
        let each = |bytes: u64| bytes / (count as u64).max(1);
        Self { server: each(self.server), client: each(self.client) }
    }
}

impl fmt::Display for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at the server, {} at the client", self.server, self.client)
    }
}
