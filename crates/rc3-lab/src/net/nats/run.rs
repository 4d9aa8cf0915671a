//! Files between two hosts, each behind its translator.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path as FilePath, PathBuf},
    time::{Duration, Instant},
};

use super::{
    gateway::{self, outside},
    nat::{Nat, SHELL_PORT},
    shared::Shared,
};
use crate::net::{
    act::Job,
    error::NetError,
    interrupt,
    namespace::Namespace,
    path::Path,
    process::Process,
    site::{OTHER, RECEIVER, Site, Wan},
};

/// For one file.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks for the file.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Content of the file: one packet.
const CONTENT: &[u8] = &[7; 1000];

/// Flags of a receiver that prints a code; without, it prints a ticket.
pub(super) const BY_CODE: &[&str] = &["--meet", OTHER];

/// How a file went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NatOutcome {
    /// Whether UDP passed.
    pub(super) is_direct: bool,
    /// Seconds from the start of the command until the content was there.
    pub(super) seconds: f64,
}

/// Two hosts.
pub(super) struct NatPair<'a> {
    program: &'a FilePath,
    site: Site,
    /// Behind the translators.
    near: Vec<Namespace>,
    far: Vec<Namespace>,
    /// Of gateways that map ports.
    _gateways: Vec<Process>,
    files: tempfile::TempDir,
}

impl<'a> NatPair<'a> {
    pub(super) fn new(near: Nat, far: Nat, program: &'a FilePath) -> Result<Self, NetError> {
        let (site, files) = (Site::new()?, tempfile::tempdir()?);
        let mut gateways = Vec::new();
        let mut build = |nat: Nat, gateway: &Namespace, nth: usize| {
            let (outside, inside) = (outside(nth), format!("10.93.{nth}.1"));
            site.router.ip(&format!("route add {outside} via {inside}"))?;
            let hosts = nat.build(gateway, &outside)?;
            gateways.extend(gateway::start(nat, gateway, nth, files.path())?);
            Ok::<_, NetError>(hosts)
        };
        let (near, far) = (build(near, &site.sender, 0)?, build(far, &site.receiver, 2)?);
        Self { program, site, near, far, _gateways: gateways, files }.ready()
    }

    /// Both behind one translator.
    pub(super) fn shared(shared: Shared, program: &'a FilePath) -> Result<Self, NetError> {
        let (site, files) = (Site::new()?, tempfile::tempdir()?);
        let [near, far] = shared.build(&site.sender)?;
        Self { program, site, near: vec![near], far: vec![far], _gateways: Vec::new(), files }.ready()
    }

    /// The same, with all files that it needs.
    fn ready(self) -> Result<Self, NetError> {
        self.write_ssh()?;
        fs::write(self.file("content"), CONTENT)?;
        Ok(self)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// A program in place of ssh: it reaches the far host's shell at the outermost translator, as a forwarded port does.
    fn write_ssh(&self) -> Result<(), NetError> {
        let at = format!("{RECEIVER}:{SHELL_PORT}").parse().expect("an address");
        let words = Job::Dial(at).words()?.map(|word| format!("'{word}'")).join(" ");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = -G ]; then echo hostname {RECEIVER}; exit; fi\n\
             for word; do command=$word; done\n\
             {{ printf '%s\\n' \"$command\"; exec cat; }} | exec '{}' {words}\n",
            std::env::current_exe()?.display()
        );
        fs::create_dir(self.file("bin"))?;
        let path = self.file("bin/ssh");
        fs::write(&path, script)?;
        Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
    }

    /// Starts the path between the translators, and the shell of the far host.
    pub(super) fn start(&self, path: &Path) -> Result<(Wan<'_>, Process), NetError> {
        let wan = self.site.start_wan(path, 1)?;
        let job = Job::Shell(([0, 0, 0, 0], SHELL_PORT).into());
        let shell = Process::job("shell", self.far.last().unwrap_or(&self.site.receiver), &job)?;
        shell.line()?;
        Ok((wan, shell))
    }

    /// Sends so many files over this path, with a rendezvous on a third host; the receivers have these flags.
    pub(super) fn send_files(
        &self,
        path: &Path,
        runs: u32,
        flags: &[&str],
    ) -> Result<Vec<NatOutcome>, NetError> {
        let _wan = self.site.start_wan(path, 1)?;
        let meet = ["meet", "--relay"];
        let rendezvous = Process::start("rc3 meet", self.site.other.command(self.program).args(meet))?;
        rendezvous.line()?;
        (0..runs).map(|_| self.send_to(flags)).collect()
    }

    /// Copies once.
    pub(super) fn copy(&self) -> Result<NatOutcome, NetError> {
        let there = self.empty()?;
        self.send(
            &format!("copy --rc3-path '{}'", self.program.display()),
            &format!("host:'{}'", there.display()),
        )
    }

    fn send_to(&self, flags: &[&str]) -> Result<NatOutcome, NetError> {
        let there = self.empty()?;
        let mut command = self.far.last().unwrap_or(&self.site.receiver).command(self.program);
        command.args(["recv", "--no-path-memory", "--dir"]).arg(there).args(flags);
        let receiver = Process::start("rc3 recv", &mut command)?;
        let invitation = receiver.line()?;
        let outcome = self.send("send", &format!("'{invitation}'"))?;
        receiver.rest(PATIENCE)?;
        Ok(outcome)
    }

    /// The directory there, without what came before.
    fn empty(&self) -> Result<PathBuf, NetError> {
        let there = self.file("there");
        // It may not be there so far.
        let _ = fs::remove_dir_all(&there);
        fs::create_dir(&there)?;
        Ok(there)
    }

    /// Sends the content by this command to this place, and waits until it is there.
    fn send(&self, verb: &str, to: &str) -> Result<NatOutcome, NetError> {
        let (there, said) = (self.file("there"), self.file("said"));
        let script = format!(
            "exec '{}' {verb} --no-path-memory '{}' {to} 2>'{}'",
            self.program.display(),
            self.file("content").display(),
            said.display()
        );
        let mut command = self.near.last().unwrap_or(&self.site.sender).command("sh");
        let search = std::env::var("PATH").unwrap_or_default();
        command.args(["-c", &script]).env("PATH", format!("{}:{search}", self.file("bin").display()));
        command.env("HOME", self.files.path()).env_remove("XDG_STATE_HOME");
        let began = Instant::now();
        let near = Process::start(format!("rc3 {verb}"), &mut command)?;
        let arrived = there.join("content");
        interrupt::wait_for(PATIENCE, LOOK_EVERY, || Ok(arrived.exists()))?;
        let seconds = began.elapsed().as_secs_f64();
        let ended = near.rest(PATIENCE);
        let said = fs::read_to_string(said)?;
        if ended.is_err() || fs::read(arrived).ok().as_deref() != Some(CONTENT) {
            let why = said.trim().replace('\n', "; ");
            return Err(NetError::Process { what: format!("rc3 {verb}"), why });
        }
        Ok(NatOutcome { is_direct: !said.contains("the data goes through"), seconds })
    }
}
