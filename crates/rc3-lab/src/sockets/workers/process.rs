//! A process of this program on some cores, and its CPU time.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use super::Result;

/// Ends with the value.
pub(crate) struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program with `words` on `cores`.
    pub(crate) fn start(cores: &str, words: &[String]) -> Result<Self> {
        let mut child = Command::new("taskset")
            .args(["-c", cores])
            .arg(std::env::current_exe()?)
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run taskset, install util-linux: {error}"))?;
        let output = BufReader::new(child.stdout.take().ok_or("a child without output")?);
        Ok(Self { child, output })
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(format!("{:?} ended early", self.child.wait()?).into());
        }
        Ok(line.trim().to_owned())
    }

    /// What it has used so far.
    pub(crate) fn usage(&self) -> Result<Usage> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // proc(5): fields 14 and 15, counted behind the name, which is in parentheses.
        let (_, fields) = stat.rsplit_once(')').ok_or("a line of /proc that cannot be read")?;
        let ticks: u64 =
            fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        let per_second = rustix::param::clock_ticks_per_second();
        let cpu = Duration::from_secs_f64(ticks as f64 / per_second as f64);
        Ok(Usage { cpu, wall: Duration::ZERO, at: Instant::now() })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Gone already, if this fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// In which time.
    pub(crate) wall: Duration,
    at: Instant,
}

impl Usage {
    /// From `before` until this.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { cpu: self.cpu - before.cpu, wall: self.at - before.at, ..self }
    }
}
