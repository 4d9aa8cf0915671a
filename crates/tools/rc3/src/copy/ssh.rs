//! The ssh process that starts the far end.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{CopyJob, error::CopyError, wire::Wire};

/// Time for ssh to end by itself.
const END_PATIENCE: Duration = Duration::from_secs(3);
/// The same as scp's: nothing of the user's configuration may start another command or terminal.
const OPTIONS: [&str; 4] = ["-T", "-oRemoteCommand=none", "-oClearAllForwardings=yes", "--"];
/// The hidden command of the far end.
const PEER_COMMAND: &str = "copy-peer";

/// Ends ssh when dropped.
pub(super) struct Ssh {
    child: Child,
}

impl Ssh {
    /// Starts the far end. What ssh prints on standard error passes through. Nothing secret is in the arguments or the
    /// environment.
    pub(super) fn start(job: &CopyJob) -> Result<(Self, Wire), CopyError> {
        let mut words = job.ssh.iter();
        let program = words.next().map_or("ssh", String::as_str);
        let mut command = Command::new(program);
        command.args(words);
        if job.ssh.is_empty() {
            command.args(OPTIONS);
        }
        command.arg(&job.host).arg(format!("{} {PEER_COMMAND}", shell_word(&job.rc3_path)));
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let failed = |error| CopyError::NoSsh { program: program.to_owned(), error };
        let mut child = spawned.map_err(failed)?;
        let pipes = child.stdout.take().zip(child.stdin.take());
        let ssh = Self { child };
        let (from, to) = pipes.ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
        Ok((ssh, Wire::near(from, to)))
    }

    /// The exit code, after a while; `None` if a signal ended it.
    pub(super) async fn exit_code(&mut self) -> Option<i32> {
        let until = Instant::now() + END_PATIENCE;
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        // Without effect on a process that has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A path for the remote shell, which expands a leading `~/` only.
fn shell_word(path: &str) -> String {
    let (home, rest) = match path.strip_prefix("~/") {
        Some(rest) => ("~/", rest),
        None => ("", path),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !rest.is_empty() && rest.chars().all(is_plain) {
        return path.to_owned();
    }
    format!("{home}'{}'", rest.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_reach_the_remote_shell_as_one_word() {
        assert_eq!(shell_word("rc3"), "rc3");
        assert_eq!(shell_word("~/bin/rc3"), "~/bin/rc3");
        assert_eq!(shell_word("/my programs/rc3; rm x"), "'/my programs/rc3; rm x'");
        assert_eq!(shell_word("~/it's"), r"~/'it'\''s'");
    }
}
