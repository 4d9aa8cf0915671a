//! The ssh process that starts the far end.

use std::{io, process::Stdio, time::Duration};

use tokio::{
    io::BufReader,
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{CopyJob, wire::Listening};
use crate::error::{Error, ErrorKind, Result};

/// Time for ssh to end by itself.
const END_PATIENCE: Duration = Duration::from_secs(3);
/// The same as scp's: nothing of the user's configuration may start another command or terminal.
const OPTIONS: [&str; 4] = ["-T", "-oRemoteCommand=none", "-oClearAllForwardings=yes", "--"];
/// The hidden command of the far end.
const PEER_COMMAND: &str = "copy-peer";

/// The process. Killed when dropped, unless the work was done.
pub(super) struct Ssh(Option<Child>);

impl Ssh {
    /// Starts the far end. What ssh prints on standard error passes through. Nothing secret is in the arguments or the
    /// environment.
    pub(super) fn start(
        job: &CopyJob,
        listening: &Listening,
    ) -> Result<(Self, BufReader<ChildStdout>, ChildStdin)> {
        let mut words = job.ssh.iter();
        let program = words.next().map_or("ssh", String::as_str);
        let mut command = Command::new(program);
        command.args(words);
        if job.ssh.is_empty() {
            command.args(OPTIONS);
        }
        command.arg(&job.host).arg(format!(
            "{} {PEER_COMMAND} {}",
            shell_word(&job.args.rc3_path),
            listening.to_word()
        ));
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let failed = |error: io::Error| {
            let hint = "install an ssh client, or name one by --ssh";
            Error::new(ErrorKind::NoSsh, format!("cannot run {program}: {error}"), hint)
        };
        let mut child = spawned.map_err(failed)?;
        let pipes = child.stdout.take().zip(child.stdin.take());
        let (from, to) = pipes.ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        Ok((Self(Some(child)), BufReader::new(from), to))
    }

    /// The exit code, after a while; `None` if a signal ended it.
    pub(super) async fn exit_code(&mut self) -> Option<i32> {
        timeout(END_PATIENCE, self.0.as_mut()?.wait()).await.ok()?.ok()?.code()
    }

    /// Lets ssh end by itself, a round trip after its pipes are closed: other sessions may share its connection.
    pub(super) fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        if let Some(ssh) = &mut self.0 {
            // It may have ended.
            let _ = ssh.start_kill();
        }
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
