//! The ssh process that starts the far end.

use std::{io, net::IpAddr, process::Stdio, time::Duration};

use tokio::{
    io::BufReader,
    net::lookup_host,
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{CopyJob, wire::Terms};
use crate::error::{Error, ErrorKind, Result};

/// Most addresses of [`addresses`].
pub(super) const ADDRESSES_MAX: usize = 4;
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
    pub(super) fn start(job: &CopyJob, terms: &Terms) -> Result<(Self, BufReader<ChildStdout>, ChildStdin)> {
        let mut words = job.ssh.iter();
        let program = words.next().map_or("ssh", String::as_str);
        let mut command = Command::new(program);
        command.args(words);
        if job.ssh.is_empty() {
            command.args(OPTIONS);
        }
        command.arg(&job.host).arg(format!(
            "{} {PEER_COMMAND} {}",
            shell_word(&job.args.rc3_path)?,
            terms.to_word()
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

/// The addresses of the host that ssh connects to by its configuration; none if `job` names another program than ssh. Not
/// those of the far end's choice, so useful where that is behind a NAT that forwards ssh.
///
/// Cancel-safe: dropping the future ends the program.
pub(super) async fn addresses(job: &CopyJob) -> Vec<IpAddr> {
    let mut words = job.ssh.iter();
    if words.next().is_some_and(|program| program != "ssh") {
        return Vec::new();
    }
    let mut command = Command::new("ssh");
    command.args(words).args(["-G", "--", &job.host]).stdin(Stdio::null()).stderr(Stdio::null());
    let Ok(output) = command.kill_on_drop(true).output().await else { return Vec::new() };
    let Some(host) = hostname(&String::from_utf8_lossy(&output.stdout)) else { return Vec::new() };
    let found = lookup_host((host.as_str(), 0)).await.into_iter().flatten();
    found.map(|address| address.ip()).take(ADDRESSES_MAX).collect()
}

/// The host's name or address in what `ssh -G` prints.
fn hostname(configuration: &str) -> Option<String> {
    configuration.lines().find_map(|line| Some(line.strip_prefix("hostname ")?.to_owned()))
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
fn shell_word(path: &str) -> Result<String> {
    let (home, rest) = path.strip_prefix("~/").map_or(("", path), |rest| ("~/", rest));
    let quoted = shlex::try_quote(rest);
    let quoted = quoted.map_err(|_| Error::usage("--rc3-path has a NUL", "write a path"))?;
    Ok(format!("{home}{quoted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_says_to_which_host_it_connects() {
        let configuration = "host alias\nuser me\nhostname 192.0.2.7\nport 22\nproxyjump jump\n";
        assert_eq!(hostname(configuration).as_deref(), Some("192.0.2.7"));
        assert_eq!(hostname("usage: ssh"), None);
    }

    #[test]
    fn paths_reach_the_remote_shell_as_one_word() {
        let word = |path| shell_word(path).unwrap();
        assert_eq!(word("rc3"), "rc3");
        assert_eq!(word("~/bin/rc3"), "~/bin/rc3");
        assert_eq!(word("/my programs/rc3; rm x"), "'/my programs/rc3; rm x'");
        assert_eq!(word("~/it's"), r#"~/"it's""#);
    }
}
