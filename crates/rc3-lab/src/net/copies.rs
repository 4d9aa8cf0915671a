//! What copying files costs with `rc3 send`, `rc3 copy`, scp, rsync and tar, over new ssh connections and over a shared one.

use std::{
    fmt, fs,
    path::{Path as FilePath, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use rc3_text::units::about_time;

use super::{
    error::NetError,
    experiment::Options,
    interrupt,
    namespace::finish,
    process::Process,
    programs::rc3,
    run::Lab,
    scheme::PORT,
    site::{RECEIVER, Site},
};
use crate::{
    document::{Document, Table},
    statistics::MedianInterval,
};

/// For any one command, and for sshd to come up.
const PATIENCE: Duration = Duration::from_secs(300);
/// For what a command leaves behind: packets in queues, a closing ssh.
const REST: Duration = Duration::from_secs(1);
const SSHD: &str = "/usr/sbin/sshd";

/// Files of one length.
#[derive(Debug, Clone, Copy)]
struct Content {
    files: u32,
    bytes: u64,
    /// Round-trip time in ms of the path that it takes.
    rtt: u64,
}

/// Small files on long paths, where round trips decide, and single ones.
const CONTENTS: [Content; 6] = [
    Content { files: 1, bytes: 4096, rtt: 262 },
    Content { files: 2000, bytes: 4096, rtt: 262 },
    Content { files: 10_000, bytes: 10_000, rtt: 100 },
    Content { files: 1, bytes: 1_000_000, rtt: 80 },
    Content { files: 1, bytes: 5_000_000, rtt: 80 },
    Content { files: 1, bytes: 30_000_000, rtt: 80 },
];

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} bytes", self.files, self.bytes)
    }
}

impl Content {
    fn write(self, folder: &FilePath) -> Result<PathBuf, NetError> {
        let folder = folder.join("content");
        fs::create_dir(&folder)?;
        let mut bytes = vec![0; self.bytes as usize];
        for nth in 0..self.files {
            blake3::Hasher::new().update(&nth.to_le_bytes()).finalize_xof().fill(&mut bytes);
            fs::write(folder.join(format!("file-{nth:05}")), &bytes)?;
        }
        Ok(folder)
    }
}

/// What copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copier {
    /// Only runs `true` there.
    Login,
    /// `rc3 send`, over a path that it knows from before or not.
    Send { known: bool },
    /// `rc3 copy`, over a path that it knows.
    Copy,
    /// `scp -r`.
    Scp,
    /// `rsync -a`.
    Rsync,
    /// `tar` through ssh.
    Tar,
}

impl fmt::Display for Copier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Login => "ssh HOST true",
            Self::Send { known: false } => "rc3 send, path not known",
            Self::Send { known: true } => "rc3 send, path known",
            Self::Copy => "rc3 copy, path known",
            Self::Scp => "scp",
            Self::Rsync => "rsync",
            Self::Tar => "tar over ssh",
        })
    }
}

/// In turns, each over a new ssh connection and over a shared one. scp takes some round trips for each file.
fn copiers(content: Content) -> impl Iterator<Item = (Copier, bool)> {
    use Copier::{Copy, Login, Rsync, Scp, Send, Tar};
    let all = [Login, Send { known: false }, Send { known: true }, Copy, Scp, Rsync, Tar];
    let all = all.into_iter().filter(move |copier| *copier != Scp || content.files == 1);
    all.flat_map(|copier| match copier {
        Send { .. } => vec![(copier, false)],
        _ => vec![(copier, false), (copier, true)],
    })
}

/// Hosts with an sshd at the receiver, and the files of a run.
struct Copies {
    site: Site,
    files: tempfile::TempDir,
    content: PathBuf,
    program: PathBuf,
    _sshd: Process,
    _shared: Process,
}

/// Looks for all programs.
///
/// # Errors
/// If the host lacks one.
pub(super) fn require(_: &Options) -> Result<(), NetError> {
    let programs = ["ssh", "ssh-keygen", SSHD, "scp", "rsync", "tar", "diff"];
    let is_missing = |name: &&str| !FilePath::new("/usr/bin").join(name).exists();
    let missing: Vec<_> = programs.into_iter().filter(is_missing).map(str::to_owned).collect();
    if missing.is_empty() { rc3().map(drop) } else { Err(NetError::Missing(missing)) }
}

/// Measures each command with each content.
pub fn measure(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let mut table = Table::new(["files", "command", "ssh connection", "#median, s", "#from", "#to"]);
    let runs = lab.options.runs();
    for content in CONTENTS {
        // What was measured is in the report.
        if interrupt::check().is_err() {
            break;
        }
        let path = lab.options.path_of(100, content.rtt);
        let title = format!("{content}, {}", about_time(path.rtt));
        let (site, files) = (Site::new()?, tempfile::tempdir()?);
        let source = content.write(files.path())?;
        let _wan = site.start_wan(&path, 1)?;
        let copies = Copies::new(site, files, source)?;
        let turns: Vec<_> = copiers(content).collect();
        let mut seconds = vec![Vec::new(); turns.len()];
        // The path becomes known.
        copies.run(Copier::Send { known: true }, false)?;
        for _ in 0..runs {
            for (&(copier, shared), seconds) in turns.iter().zip(&mut seconds) {
                let what = format!("{title}: {copier}{}", if shared { ", shared" } else { "" });
                seconds.extend(lab.attempt(&what, || {
                    let seconds = copies.run(copier, shared)?;
                    interrupt::sleep(REST).map(|()| seconds)
                }));
            }
        }
        for (&(copier, shared), seconds) in turns.iter().zip(&seconds) {
            table.row(&title, cells(copier, shared, seconds));
        }
    }
    let text = format!(
        "{}, other round trips in the table; {runs} runs in turns. Each ends when the command does, and its files are \
         compared. A path is known from a run before.",
        lab.options.path_of(100, CONTENTS[0].rtt)
    );
    Ok(vec![Document::new("Copies").text(text).table(table)])
}

fn cells(copier: Copier, shared: bool, seconds: &[f64]) -> [String; 5] {
    let connection = match (copier, shared) {
        (Copier::Send { .. }, _) => "none",
        (_, false) => "new",
        (_, true) => "shared",
    };
    let estimate = MedianInterval::of(seconds);
    let text =
        |of: fn(MedianInterval) -> f64| estimate.map_or_else(String::new, |it| format!("{:.2}", of(it)));
    [copier.to_string(), connection.to_owned(), text(|it| it.median), text(|it| it.low), text(|it| it.high)]
}

impl Copies {
    fn new(site: Site, files: tempfile::TempDir, content: PathBuf) -> Result<Self, NetError> {
        let file = |name: &str| files.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let words = ["-q", "-t", "ed25519", "-N", "", "-f", &file(key)];
            finish("ssh-keygen", Command::new("ssh-keygen").args(words))?;
        }
        // With keep-alives both ends notice when the path is gone, and none stays behind.
        let sshd = format!(
            "ListenAddress {RECEIVER}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nSubsystem sftp internal-sftp\nClientAliveInterval 2\n\
             ClientAliveCountMax 5\n",
            file("host"),
            file("user.pub")
        );
        fs::write(files.path().join("sshd"), sshd)?;
        let ssh = format!(
            "Host there\nHostName {RECEIVER}\nUser root\nIdentityFile {}\nUserKnownHostsFile {}\nBatchMode yes\n\
             StrictHostKeyChecking no\nLogLevel ERROR\nServerAliveInterval 2\nServerAliveCountMax 5\n",
            file("user"),
            file("known")
        );
        fs::write(files.path().join("ssh"), &ssh)?;
        fs::write(files.path().join("shared"), format!("{ssh}ControlPath {}\n", file("control")))?;
        fs::create_dir_all("/run/sshd")?;
        let sshd = Process::start("sshd", site.receiver.command(SSHD).args(["-D", "-f", &file("sshd")]))?;
        // Until sshd listens, an attempt fails at once.
        let login = || finish("ssh", site.sender.command("ssh").args(["-F", &file("ssh"), "there", "true"]));
        if !interrupt::wait_for(PATIENCE, REST, || Ok(login().is_ok()))? {
            login()?;
        }
        let words = ["-F", &file("shared"), "-M", "-N", "there"];
        let shared = Process::start("shared ssh", site.sender.command("ssh").args(words))?;
        interrupt::wait_for(PATIENCE, REST, || Ok(files.path().join("control").exists()))?;
        Ok(Self { site, files, content, program: rc3()?, _sshd: sshd, _shared: shared })
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// Copies the content once, and returns the seconds that the command took.
    fn run(&self, copier: Copier, shared: bool) -> Result<f64, NetError> {
        let there = self.file("there");
        // A command that failed has left it.
        let _ = fs::remove_dir_all(&there);
        fs::create_dir(&there)?;
        let seconds = self.time(copier, shared, &there)?;
        if copier != Copier::Login {
            let copied = FilePath::new(&there).join("content");
            finish("diff", Command::new("diff").arg("-r").arg(&self.content).arg(copied))?;
        }
        Ok(seconds)
    }

    fn time(&self, copier: Copier, shared: bool, there: &str) -> Result<f64, NetError> {
        let (content, program) = (self.content.display().to_string(), self.program.display().to_string());
        let ssh = format!("ssh -F {}", self.file(if shared { "shared" } else { "ssh" }));
        let config = self.file(if shared { "shared" } else { "ssh" });
        let ticket = self.file("ticket");
        let unknown = if copier == (Copier::Send { known: false }) { "--no-path-memory" } else { "" };
        let script = match copier {
            Copier::Login => format!("{ssh} there true"),
            Copier::Send { .. } => {
                format!("'{program}' send {unknown} --quiet --ticket-file '{ticket}' '{content}'")
            }
            Copier::Copy => {
                format!(
                    "'{program}' copy --quiet --rc3-path '{program}' -e '{ssh}' '{content}' 'there:{there}/'"
                )
            }
            Copier::Scp => format!("scp -q -r -F {config} '{content}' 'there:{there}/'"),
            Copier::Rsync => format!("rsync -a -e '{ssh}' '{content}' 'there:{there}/'"),
            Copier::Tar => {
                let folder = self.files.path().display();
                format!("tar c -C '{folder}' content | {ssh} there tar x -C '{there}'")
            }
        };
        let receiver = match copier {
            Copier::Send { .. } => Some(self.receiver(there, &ticket)?),
            _ => None,
        };
        let mut command = self.site.sender.command("sh");
        command.args(["-c", &script]).env("XDG_STATE_HOME", self.file("state"));
        let begun = Instant::now();
        Process::start(copier.to_string(), &mut command)?.rest(PATIENCE)?;
        let seconds = begun.elapsed().as_secs_f64();
        if let Some(receiver) = receiver {
            receiver.rest(PATIENCE)?;
        }
        Ok(seconds)
    }

    /// `rc3 recv`, once it listens. It removes its ticket at the end.
    fn receiver(&self, there: &str, ticket: &str) -> Result<Process, NetError> {
        let address = format!("{RECEIVER}:{PORT}");
        // One that was ended has left it.
        let _ = fs::remove_file(ticket);
        let words = ["recv", "--quiet", "--listen", &address, "--dir", there, "--ticket-file", ticket];
        let process = Process::start("rc3 recv", self.site.receiver.command(&self.program).args(words))?;
        interrupt::wait_for(PATIENCE, Duration::from_millis(50), || Ok(FilePath::new(ticket).exists()))?;
        Ok(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_takes_its_turn_over_both_kinds_of_connections() {
        let single: Vec<_> = copiers(CONTENTS[0]).collect();
        assert_eq!(single.iter().filter(|(copier, _)| *copier == Copier::Scp).count(), 2);
        assert_eq!((single.len(), copiers(CONTENTS[1]).count()), (12, 10));
        let row = cells(Copier::Send { known: true }, false, &[1.0, 3.0, 2.0]);
        assert_eq!(row, ["rc3 send, path known", "none", "2.00", "1.00", "3.00"]);
    }
}
