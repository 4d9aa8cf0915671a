//! Processes of a measurement: they print lines, and end with their standard input.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{act::Job, error::NetError, interrupt, namespace::Namespace, urgency};

/// How long a process may take for a line that is expected at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often interruptions are looked for while waiting.
const TICK: Duration = Duration::from_millis(20);

/// A process. Dropping the value ends it.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Process {
    /// Starts a program.
    pub fn start(what: impl Into<String>, command: &mut Command) -> Result<Self, NetError> {
        let what = what.into();
        let failed = |error: std::io::Error| NetError::Process { what: what.clone(), why: error.to_string() };
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take().expect("a pipe");
        let (lines, errors) = (lines_of(child.stdout.take()), lines_of(child.stderr.take()));
        Ok(Self { what, child, input, lines, errors })
    }

    /// Starts this program on a host, to do something there.
    pub fn job(what: impl Into<String>, host: &Namespace, job: &Job) -> Result<Self, NetError> {
        Self::start(what, host.command(std::env::current_exe()?).args(job.words()?))
    }

    /// Starts this program before all others, and waits until it is ready.
    pub fn urgent_job(what: &str, job: &Job) -> Result<Self, NetError> {
        let process = Self::start(what, urgency::first()?.args(job.words()?))?;
        process.line()?;
        Ok(process)
    }

    /// The next line that it prints.
    ///
    /// # Errors
    /// If it prints none.
    pub fn line(&self) -> Result<String, NetError> {
        self.line_in(PATIENCE)
    }

    /// The next line that it prints, within so long.
    ///
    /// # Errors
    /// If it prints none.
    pub fn line_in(&self, patience: Duration) -> Result<String, NetError> {
        self.next(Instant::now() + patience)?.ok_or_else(|| self.failed("ended too early"))
    }

    /// The next line that it prints until then, or `None` at the end of its output.
    fn next(&self, until: Instant) -> Result<Option<String>, NetError> {
        loop {
            match self.lines.recv_timeout(TICK) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                    return Err(self.failed("printed nothing in time"));
                }
                Err(RecvTimeoutError::Timeout) => interrupt::check()?,
            }
        }
    }

    /// Lines that it has printed since the last call.
    pub fn lines_so_far(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// All further lines, up to its end.
    ///
    /// # Errors
    /// If that takes longer, it fails, or the laboratory is interrupted.
    pub fn rest(mut self, patience: Duration) -> Result<Vec<String>, NetError> {
        let until = Instant::now() + patience;
        let mut lines = Vec::new();
        while let Some(line) = self.next(until)? {
            lines.push(line);
        }
        let status = self.child.wait()?;
        if status.success() { Ok(lines) } else { Err(self.failed(&status.to_string())) }
    }

    /// How it has ended, if it has.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, NetError> {
        Ok(self.child.try_wait()?)
    }

    /// Nothing, as long as it runs.
    ///
    /// # Errors
    /// If it has ended: what it complained about.
    pub fn require_running(&mut self) -> Result<(), NetError> {
        if self.ended()?.is_some() { Err(self.failed("ended")) } else { Ok(()) }
    }

    /// Sends it a line.
    pub fn ask(&mut self, line: &str) -> Result<(), NetError> {
        writeln!(self.input, "{line}").map_err(|_| self.failed("no longer reads"))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, signal: Signal) -> Result<(), NetError> {
        let id = Pid::from_raw(i32::try_from(self.child.id()).map_err(io::Error::other)?);
        kill(id, signal).map_err(|error| self.failed(&error.to_string()))
    }

    /// Bytes of its memory that are in RAM.
    ///
    /// # Errors
    /// If it has ended.
    pub fn resident(&self) -> Result<u64, NetError> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        Ok(field(&status, "VmRSS:")? * 1024)
    }

    /// What it has used so far.
    ///
    /// # Errors
    /// If it has ended.
    pub fn usage(&self) -> Result<Usage, NetError> {
        let proc = format!("/proc/{}", self.child.id());
        let ticks = ticks(&fs::read_to_string(format!("{proc}/stat"))?)?;
        let cpu = Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64);
        let mut wake_ups = 0;
        for thread in fs::read_dir(format!("{proc}/task"))? {
            let status = fs::read_to_string(thread?.path().join("status"))?;
            wake_ups += field(&status, "voluntary_ctxt_switches:")?;
        }
        Ok(Usage { cpu, wake_ups, at: Instant::now() })
    }

    fn failed(&self, why: &str) -> NetError {
        // What a process complains about comes a little later than its end.
        let complaints: Vec<String> =
            self.errors.recv_timeout(TICK * 5).into_iter().chain(self.errors.try_iter()).collect();
        let why = if complaints.is_empty() { why.to_owned() } else { complaints.join("; ") };
        NetError::Process { what: self.what.clone(), why }
    }
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
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    wake_ups: u64,
    at: Instant,
}

impl Usage {
    /// From `before` until this: CPU time per second, and wake-ups per second.
    pub fn since(self, before: Self) -> (f64, f64) {
        let seconds = (self.at - before.at).as_secs_f64();
        let cpu = self.cpu.saturating_sub(before.cpu).as_secs_f64();
        (cpu / seconds, self.wake_ups.saturating_sub(before.wake_ups) as f64 / seconds)
    }
}

/// User and system time in the line of `stat` (proc(5)): fields 14 and 15, counted behind the name, which is in
/// parentheses.
fn ticks(stat: &str) -> io::Result<u64> {
    let (_, fields) = stat.rsplit_once(')').ok_or_else(|| io::Error::other("no line of /proc/PID/stat"))?;
    Ok(fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// The number on the line of `status` that begins with `name` (proc(5)).
fn field(status: &str, name: &str) -> io::Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("no {name} in a status of /proc")))
}

/// Lines of a pipe, read as they come. A process that prints never waits for us.
fn lines_of(pipe: Option<impl std::io::Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(pipe) = pipe {
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(words: &str) -> Process {
        Process::start("shell", Command::new("sh").args(["-c", words])).unwrap()
    }

    #[test]
    fn lines_come_and_an_early_end_is_a_failure() {
        let mut process = shell("echo one; echo two; read line; echo $line; echo bad >&2; exit 1");
        assert_eq!((process.line().unwrap(), process.line().unwrap()), ("one".to_owned(), "two".to_owned()));
        assert!(process.line_in(Duration::from_millis(50)).is_err());
        process.ask("three").unwrap();
        assert_eq!(process.line().unwrap(), "three");
        let error = process.line().unwrap_err().to_string();
        assert_eq!(error, "shell: bad");
    }

    #[test]
    fn the_rest_is_what_it_prints_up_to_its_end() {
        assert_eq!(shell("echo one; echo two").rest(PATIENCE).unwrap(), ["one", "two"]);
        assert!(shell("echo one; exit 3").rest(PATIENCE).unwrap_err().to_string().contains('3'));
        assert!(shell("exec sleep 10").rest(Duration::from_millis(50)).is_err());
    }

    #[test]
    fn usage_is_read_from_proc() {
        let stat = "42 (a ) name) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0 100";
        assert_eq!(ticks(stat).unwrap(), 300);
        assert!(ticks("nothing").is_err());
        assert_eq!(field("Name:\tx\nVmRSS:\t  120 kB\n", "VmRSS:").unwrap(), 120);
        assert!(field("Name:\tx\n", "VmRSS:").is_err());
        let at = Instant::now();
        let before = Usage { cpu: Duration::from_secs(1), wake_ups: 10, at };
        let after = Usage { cpu: Duration::from_secs(2), wake_ups: 30, at: at + Duration::from_secs(4) };
        assert_eq!(after.since(before), (0.25, 5.0));
    }
}
