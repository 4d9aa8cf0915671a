//! One run of a command with a fault.

use std::{
    fmt, fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path as FilePath, PathBuf},
    time::Duration,
};

use nix::sys::signal::Signal::{self, SIGCONT, SIGKILL, SIGSTOP};

use super::{BEFORE, BYTES, fault::OutageFault};
use crate::net::{
    act::Job,
    clock,
    error::NetError,
    interrupt,
    path::Path,
    process::Process,
    programs::ticket_of,
    scheme::PORT,
    site::{RECEIVER, Site},
};

/// How long it may take from the fault on.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a killed side is gone.
const GONE: Duration = Duration::from_secs(3);
/// Ports of loopback where the tunnel listens at the sender, and to which it leads at the receiver.
const TUNNEL: [u16; 2] = [9007, 9008];

/// A command that moves the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutageSubject {
    Send,
    Pipe,
    Copy,
    Tunnel,
}

impl fmt::Display for OutageSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "`rc3 send`, `recv`",
            Self::Pipe => "the same with pipes",
            Self::Copy => "`rc3 copy`",
            Self::Tunnel => "upload through `rc3 tunnel`",
        })
    }
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct OutageOutcome {
    /// Why the content is not there, if it is not.
    pub(super) failure: Option<String>,
    /// Bytes that left the near side's card, over those of the content.
    pub(super) sent: f64,
    /// Seconds from the end of the fault to the first large packet.
    pub(super) resumed: Option<f64>,
}

/// What a command says last, without its progress and its hint.
pub(super) fn reason(complaint: &str) -> String {
    let said = complaint.rsplit_once("rc3: ").map_or(complaint, |(_, said)| said);
    said.split_once("; hint:").map_or(said, |(said, _)| said).to_owned()
}

/// Why the first of these that fails does so, all of which should come to their end.
pub(super) fn failure_of(processes: impl IntoIterator<Item = Process>) -> Result<Option<String>, NetError> {
    for process in processes {
        match process.rest(PATIENCE) {
            Ok(_) => {}
            Err(NetError::Interrupted) => return Err(NetError::Interrupted),
            Err(error) => return Ok(Some(reason(&error.to_string()))),
        }
    }
    Ok(None)
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// One run.
pub(super) struct OutageRun<'a> {
    subject: OutageSubject,
    fault: OutageFault,
    path: &'a Path,
    program: &'a FilePath,
    content: &'a FilePath,
    site: Site,
    files: tempfile::TempDir,
}

impl<'a> OutageRun<'a> {
    pub(super) fn new(
        subject: OutageSubject,
        fault: OutageFault,
        path: &'a Path,
        program: &'a FilePath,
        content: &'a FilePath,
    ) -> Result<Self, NetError> {
        let (site, files) = (Site::new()?, tempfile::tempdir()?);
        // The second address stays when the first one goes.
        site.sender.sysctl(&["net.ipv4.conf.all.promote_secondaries=1"])?;
        fs::create_dir(files.path().join("there"))?;
        Ok(Self { subject, fault, path, program, content, site, files })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// The program with these words, before which a shell command may stand.
    fn rc3(&self, redirect: &str, words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        format!("exec '{}' {} {redirect}", self.program.display(), words.join(" "))
    }

    fn start(&self, far: bool, script: &str) -> Result<Process, NetError> {
        let host = if far { &self.site.receiver } else { &self.site.sender };
        let mut command = host.command("sh");
        command.args(["-c", script]).env_remove("RC3_TICKET").env_remove("XDG_STATE_HOME");
        command.env("HOME", self.file(if far { "there" } else { "here" }));
        Process::start(format!("{}, {}", self.subject, if far { "there" } else { "here" }), &mut command)
    }

    /// Starts the side that listens; a copy starts its own.
    fn start_far(&self) -> Result<Option<Process>, NetError> {
        let address = format!("{RECEIVER}:{PORT}");
        let [ticket, identity, state] =
            ["ticket", "identity", "state"].map(|name| self.file(name).display().to_string());
        let recv = ["recv", "--listen", &address, "--ticket-file", &ticket, "--identity", &identity];
        let process = match self.subject {
            OutageSubject::Copy => return Ok(None),
            OutageSubject::Send => {
                let there = self.file("there").display().to_string();
                self.start(true, &self.rc3("", &[recv.as_slice(), &["--quiet", "--dir", &there]].concat()))?
            }
            OutageSubject::Pipe => {
                let redirect = format!("> '{}'", self.file("there/content").display());
                self.start(true, &self.rc3(&redirect, &[recv.as_slice(), &["--stdout"]].concat()))?
            }
            OutageSubject::Tunnel => {
                let words = ["tunnel", "--listen", "--bind", &address, "--state", &state];
                let process = self.start(true, &self.rc3("", &words))?;
                fs::write(&ticket, ticket_of(&process)?)?;
                process
            }
        };
        interrupt::wait_for(PATIENCE, Duration::from_millis(50), || Ok(self.file("ticket").exists()))?;
        Ok(Some(process))
    }

    /// Starts what sends, and what ends when everything is sent.
    fn start_near(&self) -> Result<(Process, Option<Process>), NetError> {
        let [ticket, state, content] = [self.file("ticket"), self.file("here"), self.content.to_owned()]
            .map(|file| file.display().to_string());
        let send = ["send", "--no-path-memory", "--ticket-file", &ticket];
        let process = match self.subject {
            OutageSubject::Send => {
                self.start(false, &self.rc3("", &[send.as_slice(), &[&content]].concat()))?
            }
            OutageSubject::Pipe => {
                self.start(false, &self.rc3(&format!("< '{content}'"), &[send.as_slice(), &["-"]].concat()))?
            }
            OutageSubject::Copy => {
                let (ssh, pid) = (self.file("ssh"), self.file("pid"));
                let script = format!(
                    "#!/bin/sh\nshift\nexport SSH_CONNECTION='10.93.0.1 1 {RECEIVER} 22'\necho $$ > '{}'\n\
                     exec ip netns exec {} sh -c \"exec $*\"\n",
                    pid.display(),
                    self.site.receiver.name()
                );
                fs::write(&ssh, script)?;
                let (ssh, there) =
                    (format!("sh {}", ssh.display()), format!("there:{}/", self.file("there").display()));
                let program = self.program.display().to_string();
                let words =
                    ["copy", "--no-path-memory", "--rc3-path", &program, "-e", &ssh, &content, &there];
                self.start(false, &self.rc3("", &words))?
            }
            OutageSubject::Tunnel => {
                let forward = format!("{}:127.0.0.1:{}", TUNNEL[0], TUNNEL[1]);
                let words = [
                    "tunnel",
                    "--no-path-memory",
                    "--ticket-file",
                    &ticket,
                    "--state",
                    &state,
                    "-L",
                    &forward,
                ];
                let tunnel = self.start(false, &self.rc3("", &words))?;
                let job = Job::Upload(local(TUNNEL[0]), self.content.to_owned());
                return Ok((Process::job("upload", &self.site.sender, &job)?, Some(tunnel)));
            }
        };
        Ok((process, None))
    }

    /// The process at the far side.
    fn signal_far(&self, far: Option<&Process>, signal: Signal) -> Result<(), NetError> {
        match far {
            Some(far) => far.signal(signal),
            None => {
                let pid = fs::read_to_string(self.file("pid"))?;
                let pid = nix::unistd::Pid::from_raw(pid.trim().parse().map_err(std::io::Error::other)?);
                // It may have ended.
                let _ = nix::sys::signal::kill(pid, signal);
                Ok(())
            }
        }
    }

    /// Lets the fault happen and end.
    fn inject_fault(&self, near: &Process, far: &mut Option<Process>) -> Result<(), NetError> {
        let wait = |seconds| interrupt::sleep(Duration::from_secs(seconds));
        let Site { sender, router, .. } = &self.site;
        match self.fault {
            OutageFault::Nothing => Ok(()),
            OutageFault::Blackout(seconds) => {
                router.ip("rule add pref 1 blackhole")?;
                wait(seconds)?;
                router.ip("rule del pref 1").map(drop)
            }
            OutageFault::Unplugged(seconds) => {
                sender.ip("link set card down")?;
                wait(seconds)?;
                sender.ip("link set card up")?;
                sender.ip("route add default via 10.93.0.2").map(drop)
            }
            OutageFault::Moved => {
                sender.ip("addr add 10.93.0.7/24 dev card")?;
                sender.ip("addr del 10.93.0.1/24 dev card").map(drop)
            }
            OutageFault::NearStopped(seconds) => {
                near.signal(SIGSTOP)?;
                wait(seconds)?;
                near.signal(SIGCONT)
            }
            OutageFault::FarStopped(seconds) => {
                self.signal_far(far.as_ref(), SIGSTOP)?;
                let waited = wait(seconds);
                // After a signal, too: a copy's far side is nobody's to end, and would stay stopped.
                self.signal_far(far.as_ref(), SIGCONT)?;
                waited
            }
            OutageFault::FarKilled => {
                self.signal_far(far.as_ref(), SIGKILL)?;
                drop(far.take());
                interrupt::sleep(GONE)?;
                *far = self.start_far()?;
                Ok(())
            }
        }
    }

    pub(super) fn finish(&self) -> Result<OutageOutcome, NetError> {
        let _wan = self.site.start_wan(self.path, 1)?;
        let arrivals = Process::job("arrivals", &self.site.receiver, &Job::Arrivals("card".to_owned()))?;
        let received = self.file("there").join(match self.subject {
            OutageSubject::Send | OutageSubject::Copy => self.content.file_name().unwrap_or_default(),
            OutageSubject::Pipe | OutageSubject::Tunnel => "content".as_ref(),
        });
        let sink = match self.subject {
            OutageSubject::Tunnel => {
                let job = Job::Collect(local(TUNNEL[1]), received.clone());
                let sink = Process::job("collect", &self.site.receiver, &job)?;
                sink.line()?;
                Some(sink)
            }
            _ => None,
        };
        let mut far = self.start_far()?;
        let (near, tunnel) = self.start_near()?;
        arrivals.line()?;
        interrupt::sleep(BEFORE)?;
        self.inject_fault(tunnel.as_ref().unwrap_or(&near), &mut far)?;
        let back = clock::now();
        // A tunnel's far side goes on.
        let there = if self.subject == OutageSubject::Tunnel { sink } else { far.take() };
        let failure = failure_of([Some(near), there].into_iter().flatten())?;
        let sent = self.site.sender.sent("card", "bytes")?;
        let resumed =
            arrivals.lines_so_far().iter().filter_map(|line| line.parse::<u64>().ok()).find(|&at| at > back);
        let is_whole = || fs::read(received).ok() == fs::read(self.content).ok();
        Ok(OutageOutcome {
            failure: failure.or_else(|| (!is_whole()).then(|| "other content, and no failure".to_owned())),
            sent: sent as f64 / BYTES as f64,
            resumed: resumed.map(|at| (at - back) as f64 / 1e9),
        })
    }
}
