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
    /// Starts this program with `words` on `cores`, or on all.
    pub(crate) fn start(cores: Option<&str>, words: &[String]) -> Result<Self> {
        let this = std::env::current_exe()?;
        let mut command = match cores {
            Some(cores) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cores]).arg(this);
                command
            }
            None => Command::new(this),
        };
        let mut child =
            command.args(words).stdout(Stdio::piped()).spawn().map_err(|error| {
                format!("cannot start a process, install util-linux for taskset: {error}")
            })?;
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

    /// Lets each thread that it has now run for `part` of the time, a hundred times a second. A thread that runs by
    /// deadline is stopped when its part of a period is over (sched(7)), so it looks like a core that is slow.
    pub(crate) fn slow_down(&self, part: f64) -> Result<()> {
        let period = 10_000_000;
        let runtime = (part * f64::from(period)) as u64;
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let status = Command::new("chrt")
                .args(["--deadline", "--sched-runtime", &runtime.to_string()])
                .args(["--sched-deadline", &period.to_string(), "--sched-period", &period.to_string()])
                .args(["--pid", "0"])
                .arg(thread?.file_name())
                .status()?;
            if !status.success() {
                return Err("chrt failed: --part needs root and util-linux".into());
            }
        }
        Ok(())
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
