//! Processes of a measurement: they print lines, and end with their standard input.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use super::{error::NetError, interrupt};

/// How long a process may take for a line that is expected at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often interruptions are looked for while waiting.
const TICK: Duration = Duration::from_millis(20);

/// A process. Dropping the value ends it.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Process {
    /// Starts a program.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(what: impl Into<String>, mut command: Command) -> Result<Self, NetError> {
        let what = what.into();
        let failed = |error: std::io::Error| NetError::Process { what: what.clone(), why: error.to_string() };
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let input = child.stdin.take();
        let (lines, errors) = (lines_of(out), lines_of(errors));
        Ok(Self { what, child, input, lines, errors })
    }

    /// The next line that it prints.
    ///
    /// # Errors
    /// If it prints none.
    pub fn line(&self) -> Result<String, NetError> {
        self.line_within(PATIENCE)?.ok_or_else(|| self.failed("printed nothing in time"))
    }

    /// The next line that it prints, or `None` if that takes longer.
    ///
    /// # Errors
    /// If it ended, or the laboratory is interrupted.
    pub fn line_within(&self, patience: Duration) -> Result<Option<String>, NetError> {
        let until = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(TICK) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.failed("ended too early")),
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => return Ok(None),
                Err(RecvTimeoutError::Timeout) => interrupt::check()?,
            }
        }
    }

    /// Lines that it has printed since the last call.
    pub fn lines_so_far(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Sends it an empty line.
    ///
    /// # Errors
    /// If it does not read.
    pub fn ask(&mut self) -> Result<(), NetError> {
        let asked = self.input.as_mut().map(|input| input.write_all(b"\n"));
        asked.transpose().map(drop).map_err(|_| self.failed("no longer reads"))
    }

    /// Ends it by the end of its input, and waits until it has ended.
    ///
    /// # Errors
    /// If it takes too long, or fails.
    pub fn finish(mut self) -> Result<(), NetError> {
        self.input = None;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() { Ok(()) } else { Err(self.failed(&status.to_string())) };
            }
            thread::sleep(TICK);
        }
        Err(self.failed("did not end in time"))
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

    #[test]
    fn lines_come_and_an_early_end_is_a_failure() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; read line; echo three; echo bad >&2; exit 1"]);
        let mut process = Process::start("shell", command).unwrap();
        assert_eq!((process.line().unwrap(), process.line().unwrap()), ("one".to_owned(), "two".to_owned()));
        assert_eq!(process.line_within(Duration::from_millis(50)).unwrap(), None);
        process.ask().unwrap();
        assert_eq!(process.line().unwrap(), "three");
        let error = process.line().unwrap_err().to_string();
        assert_eq!(error, "shell: bad");
    }
}
