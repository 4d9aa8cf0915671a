//! What `rc3 send`, `copy` and `tunnel` do when the path goes away, a side sleeps, moves or is started again.

use std::{
    fmt, fs,
    path::{Path as FilePath, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use nix::sys::signal::Signal::{self, SIGCONT, SIGKILL, SIGSTOP};
use serde_json::Value;

use super::{
    act::Job,
    clock,
    error::NetError,
    interrupt,
    path::Path,
    process::Process,
    programs::{rc3, ticket_of},
    run::Lab,
    scheme::PORT,
    site::{RECEIVER, Site},
};
use crate::{
    document::{Document, Table},
    statistics::Estimate,
};

/// So many runs at once: they mostly wait.
const PARALLEL: usize = 20;
/// Content of a transfer: twelve seconds at 10 Mbit/s.
const BYTES: u64 = 15_000_000;
/// How long a transfer runs before something happens.
const BEFORE: Duration = Duration::from_secs(3);
/// How long it may take from then on.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a killed side is gone.
const GONE: Duration = Duration::from_secs(3);
/// Where the tunnel listens at the sender, and what it leads to at the receiver.
const TUNNEL: [&str; 2] = ["127.0.0.1:9007", "127.0.0.1:9008"];

/// A command that moves the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Send,
    Pipe,
    Copy,
    Tunnel,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "`rc3 send`, `recv`",
            Self::Pipe => "the same with pipes",
            Self::Copy => "`rc3 copy`",
            Self::Tunnel => "upload through `rc3 tunnel`",
        })
    }
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// Routers forward nothing for so many seconds.
    Blackout(u64),
    /// The near side's card has no address for so many seconds.
    Unplugged(u64),
    /// The near side has another address at once.
    Moved,
    /// The near side's process stands still for so many seconds.
    NearStopped(u64),
    FarStopped(u64),
    /// The far side is killed, and started again with the same identity.
    FarKilled,
}

const FAULTS: [Fault; 9] = [
    Fault::Nothing,
    Fault::Blackout(8),
    Fault::Blackout(30),
    Fault::Blackout(60),
    Fault::Unplugged(15),
    Fault::Moved,
    Fault::NearStopped(40),
    Fault::FarStopped(40),
    Fault::FarKilled,
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("none"),
            Self::Blackout(seconds) => write!(f, "no packet passes for {seconds} s"),
            Self::Unplugged(seconds) => write!(f, "card down for {seconds} s"),
            Self::Moved => f.write_str("new address"),
            Self::NearStopped(seconds) => write!(f, "SIGSTOP here for {seconds} s"),
            Self::FarStopped(seconds) => write!(f, "SIGSTOP there for {seconds} s"),
            Self::FarKilled => f.write_str("killed there, started again"),
        }
    }
}

/// How a run ended.
#[derive(Debug)]
struct Outcome {
    /// Why the content is not there, if it is not.
    failure: Option<String>,
    /// Bytes that left the near side's card, over those of the content.
    sent: f64,
    /// Seconds from the end of the fault to the first large packet.
    resumed: Option<f64>,
}

/// Measures each command with each fault.
///
/// # Errors
/// If the network cannot be made.
pub fn measure(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let path = lab.options.path_of(10, 80);
    let (runs, program) = (lab.options.runs(), rc3()?);
    let content = tempfile::NamedTempFile::new()?;
    let mut bytes = vec![0; BYTES as usize];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    fs::write(content.path(), &bytes)?;
    let mut table = Table::new([
        "command",
        "fault",
        "#runs",
        "#whole",
        "#bytes sent over content",
        "#first packet after the fault, ms: median",
        "#largest",
        "otherwise",
    ]);
    for subject in [Subject::Send, Subject::Pipe, Subject::Copy, Subject::Tunnel] {
        for fault in FAULTS {
            let what = format!("{subject}: {fault}");
            let run = || Run::new(subject, fault, &path, &program, content.path())?.finish();
            let outcomes = lab.step(&what, || repeat(runs, run))?;
            table.row(subject.to_string(), cells(fault, &outcomes));
        }
    }
    let text = format!(
        "{path}, {} MB, the fault after {} s. The first packet is one of at least 1000 bytes at the receiver's card.",
        BYTES / 1_000_000,
        BEFORE.as_secs()
    );
    Ok(vec![Document::new("Outages").text(text).table(table)])
}

/// Runs something so often, several at once.
fn repeat(runs: u32, run: impl Fn() -> Result<Outcome, NetError> + Sync) -> Result<Vec<Outcome>, NetError> {
    let (begun, outcomes) = (AtomicU32::new(0), Mutex::new(Vec::new()));
    let work = || {
        while begun.fetch_add(1, Relaxed) < runs {
            let outcome = run();
            if let Ok(mut outcomes) = outcomes.lock() {
                outcomes.push(outcome);
            }
        }
    };
    thread::scope(|scope| (0..PARALLEL.min(runs as usize)).for_each(|_| drop(scope.spawn(work))));
    outcomes.into_inner().unwrap_or_default().into_iter().collect()
}

fn cells(fault: Fault, outcomes: &[Outcome]) -> [String; 7] {
    let whole: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.failure.is_none()).collect();
    let mean = whole.iter().map(|outcome| outcome.sent).sum::<f64>() / whole.len() as f64;
    let resumed: Vec<f64> = whole.iter().filter_map(|outcome| outcome.resumed).collect();
    let estimate = Estimate::of(&resumed).filter(|_| fault != Fault::Nothing);
    let millis = |seconds: f64| format!("{:.0}", seconds * 1e3);
    let largest = resumed.iter().copied().fold(0.0, f64::max);
    [
        fault.to_string(),
        outcomes.len().to_string(),
        whole.len().to_string(),
        if whole.is_empty() { String::new() } else { format!("{mean:.3}") },
        estimate.map_or_else(String::new, |estimate| millis(estimate.median)),
        estimate.map_or_else(String::new, |_| millis(largest)),
        outcomes.iter().find_map(|outcome| outcome.failure.clone()).unwrap_or_default(),
    ]
}

/// What a command says last, without its progress and its hint.
fn reason(complaint: &str) -> String {
    let said = complaint.rsplit_once("rc3: ").map_or(complaint, |(_, said)| said);
    said.split_once("; hint:").map_or(said, |(said, _)| said).to_owned()
}

/// One run.
struct Run<'a> {
    subject: Subject,
    fault: Fault,
    path: &'a Path,
    program: &'a FilePath,
    content: &'a FilePath,
    site: Site,
    files: tempfile::TempDir,
}

impl<'a> Run<'a> {
    fn new(
        subject: Subject,
        fault: Fault,
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
        Process::start(format!("{}, {}", self.subject, if far { "there" } else { "here" }), command)
    }

    /// Starts the side that listens; a copy starts its own.
    fn start_far(&self) -> Result<Option<Process>, NetError> {
        let address = format!("{RECEIVER}:{PORT}");
        let [ticket, identity, state] =
            ["ticket", "identity", "state"].map(|name| self.file(name).display().to_string());
        let recv = ["recv", "--listen", &address, "--ticket-file", &ticket, "--identity", &identity];
        let process = match self.subject {
            Subject::Copy => return Ok(None),
            Subject::Send => {
                let there = self.file("there").display().to_string();
                self.start(true, &self.rc3("", &[recv.as_slice(), &["--quiet", "--dir", &there]].concat()))?
            }
            Subject::Pipe => {
                let redirect = format!("> '{}'", self.file("there/content").display());
                self.start(true, &self.rc3(&redirect, &[recv.as_slice(), &["--stdout"]].concat()))?
            }
            Subject::Tunnel => {
                let words = ["tunnel", "--listen", "--bind", &address, "--state", &state];
                let process = self.start(true, &self.rc3("", &words))?;
                fs::write(&ticket, ticket_of(&process)?)?;
                process
            }
        };
        let until = clock::now() + PATIENCE.as_nanos() as u64;
        while !self.file("ticket").exists() && clock::now() < until {
            interrupt::sleep(Duration::from_millis(50))?;
        }
        Ok(Some(process))
    }

    /// Starts what sends, and what ends when everything is sent.
    fn start_near(&self) -> Result<(Process, Option<Process>), NetError> {
        let [ticket, state, content] = [self.file("ticket"), self.file("here"), self.content.to_owned()]
            .map(|file| file.display().to_string());
        let send = ["send", "--no-path-memory", "--ticket-file", &ticket];
        let process = match self.subject {
            Subject::Send => self.start(false, &self.rc3("", &[send.as_slice(), &[&content]].concat()))?,
            Subject::Pipe => {
                self.start(false, &self.rc3(&format!("< '{content}'"), &[send.as_slice(), &["-"]].concat()))?
            }
            Subject::Copy => {
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
            Subject::Tunnel => {
                let forward = format!("{}:{}", &TUNNEL[0]["127.0.0.1:".len()..], TUNNEL[1]);
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
                let address = TUNNEL[0].parse().expect("an address");
                let job = Job::Upload(address, self.content.to_owned());
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
    fn strike(&self, near: &Process, far: &mut Option<Process>) -> Result<(), NetError> {
        let wait = |seconds| interrupt::sleep(Duration::from_secs(seconds));
        let Site { sender, router, .. } = &self.site;
        match self.fault {
            Fault::Nothing => Ok(()),
            Fault::Blackout(seconds) => {
                router.ip("rule add pref 1 blackhole")?;
                wait(seconds)?;
                router.ip("rule del pref 1").map(drop)
            }
            Fault::Unplugged(seconds) => {
                sender.ip("link set card down")?;
                wait(seconds)?;
                sender.ip("link set card up")?;
                sender.ip("route add default via 10.93.0.2").map(drop)
            }
            Fault::Moved => {
                sender.ip("addr add 10.93.0.7/24 dev card")?;
                sender.ip("addr del 10.93.0.1/24 dev card").map(drop)
            }
            Fault::NearStopped(seconds) => {
                near.signal(SIGSTOP)?;
                wait(seconds)?;
                near.signal(SIGCONT)
            }
            Fault::FarStopped(seconds) => {
                self.signal_far(far.as_ref(), SIGSTOP)?;
                wait(seconds)?;
                self.signal_far(far.as_ref(), SIGCONT)
            }
            Fault::FarKilled => {
                self.signal_far(far.as_ref(), SIGKILL)?;
                drop(far.take());
                interrupt::sleep(GONE)?;
                *far = self.start_far()?;
                Ok(())
            }
        }
    }

    fn finish(&self) -> Result<Outcome, NetError> {
        let _wan = self.site.start_wan(self.path, 1)?;
        let arrivals = Process::job("arrivals", &self.site.receiver, &Job::Arrivals("card".to_owned()))?;
        let received = self.file("there").join(match self.subject {
            Subject::Send | Subject::Copy => self.content.file_name().unwrap_or_default(),
            Subject::Pipe | Subject::Tunnel => "content".as_ref(),
        });
        let sink = match self.subject {
            Subject::Tunnel => {
                let job = Job::Collect(TUNNEL[1].parse().expect("an address"), received.clone());
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
        self.strike(tunnel.as_ref().unwrap_or(&near), &mut far)?;
        let back = clock::now();
        let failure = match near.rest(PATIENCE) {
            Ok(_) => None,
            Err(NetError::Interrupted) => return Err(NetError::Interrupted),
            Err(error) => Some(reason(&error.to_string())),
        };
        if let (None, Some(far)) = (&failure, far.filter(|_| self.subject != Subject::Tunnel)) {
            far.rest(PATIENCE)?;
        }
        if let (None, Some(sink)) = (&failure, sink) {
            sink.rest(PATIENCE)?;
        }
        let text = self.site.sender.ip("-s -j link show dev card")?;
        let value: Value = serde_json::from_str(&text)?;
        let sent = value[0]["stats64"]["tx"]["bytes"].as_u64().unwrap_or(0);
        let resumed =
            arrivals.lines_so_far().iter().filter_map(|line| line.parse::<u64>().ok()).find(|&at| at > back);
        let is_whole = || fs::read(received).ok() == fs::read(self.content).ok();
        Ok(Outcome {
            failure: failure.or_else(|| (!is_whole()).then(|| "other content, and no failure".to_owned())),
            sent: sent as f64 / BYTES as f64,
            resumed: resumed.map(|at| (at - back) as f64 / 1e9),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_counts_what_arrived_whole_and_says_why_the_rest_did_not() {
        let outcome = |sent, resumed| Outcome { failure: None, sent, resumed };
        let failed = Outcome { failure: Some("ended".to_owned()), ..outcome(0.5, Some(9.0)) };
        let outcomes = [outcome(1.1, Some(0.1)), outcome(1.3, Some(0.3)), failed];
        let expected = ["new address", "3", "2", "1.200", "200", "300", "ended"];
        assert_eq!(cells(Fault::Moved, &outcomes), expected);
        assert_eq!(cells(Fault::Nothing, &outcomes[..2])[4..], ["", "", ""]);
        let complaint = "`rc3 copy`, here: 7 %, 1.19 MB; rc3: lost the connection: ssh ended; hint: check it";
        assert_eq!(reason(complaint), "lost the connection: ssh ended");
        assert_eq!(reason("upload: reset"), "upload: reset");
    }

    #[test]
    fn all_runs_are_made() {
        let runs = repeat(45, || Ok(Outcome { failure: None, sent: 1.0, resumed: None })).unwrap();
        assert_eq!(runs.len(), 45);
    }
}
