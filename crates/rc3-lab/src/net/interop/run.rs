//! One case between a server and a client.

use std::{
    fmt, fs,
    path::Path as FilePath,
    time::{Duration, Instant},
};

use super::{
    case::InteropCase,
    certificates, check,
    program::{InteropPeer, folders},
};
use crate::net::{
    act::Job,
    error::NetError,
    interrupt,
    path::Path,
    process::Process,
    scheme::{HostPair, PORT, Scheme},
    site::{RECEIVER, Site},
    transport::Transport,
};

/// What an endpoint exits with in cases that it does not have.
const UNSUPPORTED: i32 = 127;
/// Address of the client's host, and the other one of the server's.
const CLIENT: [u8; 4] = [10, 93, 0, 1];
const PREFERRED: &str = "10.93.2.7";
/// Names of files in 0-RTT are so long that they do not fit into what comes later, as in the runner.
const LONG_NAME: usize = 250;
/// A server is expected to listen by then.
const START: Duration = Duration::from_secs(10);

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum InteropVerdict {
    /// With the client's bits per second.
    Passed(f64),
    /// One of the two does not have the case.
    Unsupported,
    Failed(String),
}

impl fmt::Display for InteropVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(_) => write!(f, "ok"),
            Self::Unsupported => write!(f, "-"),
            Self::Failed(_) => write!(f, "FAILS"),
        }
    }
}

/// A server and a client of a case.
pub(super) struct InteropRun<'a> {
    pub(super) case: &'a InteropCase,
    pub(super) server: &'a InteropPeer,
    pub(super) client: &'a InteropPeer,
    /// Gets a folder with the logs of a run that fails.
    pub(super) out: &'a FilePath,
}

impl InteropRun<'_> {
    /// Runs it; the logs of both stay if it fails.
    pub(super) fn finish(&self) -> Result<InteropVerdict, NetError> {
        let name = format!("{}-{}-serves-{}-", self.case.name, self.server.name, self.client.name);
        let files = tempfile::Builder::new().prefix(&name).tempdir_in(std::path::absolute(self.out)?)?;
        let verdict = self.run(files.path())?;
        if let InteropVerdict::Failed(_) = verdict {
            for side in ["client", "server"] {
                for bulky in ["www", "downloads"] {
                    // What is not there need not go.
                    let _ = fs::remove_dir_all(files.path().join(side).join(bulky));
                }
            }
            let _ = files.keep();
        }
        Ok(verdict)
    }

    fn run(&self, files: &FilePath) -> Result<InteropVerdict, NetError> {
        let (case, site) = (self.case, Site::new()?);
        let path = Path::of(10, case.rtt);
        let hosts = format!("127.0.0.1 localhost\n{RECEIVER} server4 server\n");
        let client_files = folders(&files.join("client"), &hosts)?;
        let server_files = folders(&files.join("server"), &hosts)?;
        let names = self.write_files(&server_files, &client_files)?;
        site.receiver.ip(&format!("addr add {PREFERRED}/24 dev card"))?;
        let mut wan = site.start_meddling_wan(&path, 1, case.meddling.clone())?;
        let mut server =
            self.server.start(&site.receiver, &server_files, &self.environment("server", &names))?;
        if !listens(&site, &mut server)? {
            return Ok(ended(&mut server, "server", &server_files));
        }
        let _cross = if case.name == "crosstraffic" { Some(cross_traffic(&site)?) } else { None };
        let began = Instant::now();
        let mut client =
            self.client.start(&site.sender, &client_files, &self.environment("client", &names))?;
        let code = wait(&mut client, Duration::from_secs(case.patience))?;
        let took = began.elapsed();
        let seen = wan.report()?.seen;
        let logs = [&client_files, &server_files].map(|files| files.join("logs"));
        drop((client, server));
        if code == Some(UNSUPPORTED) {
            return Ok(InteropVerdict::Unsupported);
        }
        let missing = names.iter().filter(|name| {
            let [sent, came] = [server_files.join("www"), client_files.join("downloads")]
                .map(|folder| fs::read(folder.join(name)).ok());
            sent != came
        });
        let said =
            [("client", &client_files), ("server", &server_files)].map(|(who, files)| last_words(who, files));
        let why = match (code, missing.count()) {
            (None, missing) => Some(format!(
                "{missing} of {} files missing after {} s; {}",
                names.len(),
                case.patience,
                said.concat()
            )),
            (_, missing) if missing > 0 => {
                Some(format!("{missing} of {} files missing; {}", names.len(), said.concat()))
            }
            (Some(0), _) => check::check(case, &seen, logs.each_ref().map(|path| path.as_path())).err(),
            (Some(code), _) => Some(format!("the client exits with {code}; {}", said.concat())),
        };
        let bits = case.files.iter().sum::<usize>() as f64 * 8.0;
        Ok(why.map_or(InteropVerdict::Passed(bits / took.as_secs_f64()), InteropVerdict::Failed))
    }

    fn environment(&self, role: &str, names: &[String]) -> [(&'static str, String); 5] {
        let [client, server] = self.case.asked;
        let is_client = role == "client";
        let urls: Vec<String> = names.iter().map(|name| format!("https://server4:443/{name}")).collect();
        let is_moving = self.case.name == "connectionmigration" && !is_client;
        [
            ("ROLE", role.to_owned()),
            ("TESTCASE", if is_client { client } else { server }.to_owned()),
            ("REQUESTS", urls.join(" ")),
            ("CLIENT_PARAMS", if self.server.is_http3_only() { "h3" } else { "" }.to_owned()),
            ("SERVER_PARAMS", if is_moving { format!("{PREFERRED}:443") } else { String::new() }),
        ]
    }

    /// Files to fetch and certificates; returns names.
    fn write_files(&self, server: &FilePath, client: &FilePath) -> Result<Vec<String>, NetError> {
        let mut random = blake3::Hasher::new().update(self.case.name.as_bytes()).finalize_xof();
        let width = if self.case.name == "zerortt" { LONG_NAME } else { 4 };
        let mut names = Vec::new();
        for (nth, len) in self.case.files.iter().enumerate() {
            let mut bytes = vec![0; *len];
            random.fill(&mut bytes);
            // A number alone asks some servers for so many bytes.
            let name = format!("f{nth:0width$}");
            fs::write(server.join("www").join(&name), bytes)?;
            names.push(name);
        }
        let (chain, more) = match self.case.name {
            "amplificationlimit" => (5, 20),
            "resumption" => (1, 30),
            _ => (1, 0),
        };
        certificates::write(&server.join("certs"), chain, more).map_err(std::io::Error::other)?;
        fs::copy(server.join("certs/ca.pem"), client.join("certs/ca.pem"))?;
        Ok(names)
    }
}

/// Whether a server comes to listen, and does not end.
fn listens(site: &Site, server: &mut Process) -> Result<bool, NetError> {
    let listens =
        || Ok::<_, NetError>(site.receiver.shell("cat /proc/net/udp /proc/net/udp6")?.contains(":01BB "));
    let is_known = || Ok::<_, NetError>(server.ended()?.is_some() || listens()?);
    Ok(interrupt::wait_for(START, Duration::from_millis(50), is_known)? && server.ended()?.is_none())
}

/// Its exit code; `None` if it takes longer, or was killed.
fn wait(process: &mut Process, patience: Duration) -> Result<Option<i32>, NetError> {
    let has_ended = || Ok(process.ended()?.is_some());
    interrupt::wait_for(patience, Duration::from_millis(20), has_ended)?;
    Ok(process.ended()?.and_then(|status| status.code()))
}

fn ended(process: &mut Process, who: &'static str, files: &FilePath) -> InteropVerdict {
    match process.ended().ok().flatten().and_then(|status| status.code()) {
        Some(UNSUPPORTED) => InteropVerdict::Unsupported,
        _ => InteropVerdict::Failed(format!("does not listen; {}", last_words(who, files))),
    }
}

/// The last line that an endpoint has printed.
fn last_words(who: &str, files: &FilePath) -> String {
    let output = fs::read(files.join("logs/output")).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    let line: String =
        output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().chars().take(160).collect();
    if line.is_empty() { String::new() } else { format!("{who}: {line}; ") }
}

/// A CUBIC flow of kernel TCP from the server's host to the client's: what ends with it.
fn cross_traffic(site: &Site) -> Result<Box<dyn std::any::Any>, NetError> {
    let place = HostPair {
        sender: &site.receiver,
        receiver: &site.sender,
        address: (CLIENT, PORT).into(),
        mtu: None,
    };
    let server = Scheme::own(Transport::Tcp)?.serve(&place)?;
    let long = Process::job("long flow", place.sender, &Job::Long(place.address, 0))?;
    Ok(Box::new((server, long)))
}
