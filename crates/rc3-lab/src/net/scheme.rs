//! The schemes that are compared, and the processes that run them.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use clap::ValueEnum;
use rc3_text::units::rate_text;

use super::{
    cell::Cell,
    error::NetError,
    namespace::Namespace,
    process::Process,
    site::{RECEIVER, Site},
};
use crate::sockets::contenders::{Contender, Timed};

/// Schemes of this program that take part by default, in the order of the tables.
const OWN: [Contender; 9] = [
    Contender::Rc3,
    Contender::Rc3Trust,
    Contender::Rc3Off,
    Contender::Quinn,
    Contender::QuinnIw32,
    Contender::QuinnBbr,
    Contender::TcpReno,
    Contender::Tcp,
    Contender::TcpBbr,
];

/// Where flows arrive.
const PORT: u16 = 14_433;

/// A scheme on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheme {
    /// The name on the command line and in tables.
    pub name: String,
    /// The version of what carries it.
    pub version: String,
    /// The program, if it is not this one.
    program: Option<PathBuf>,
}

impl Scheme {
    /// All schemes that this host can run. `peers` is the program with implementations of others, if there is one.
    pub fn all(peers: Option<&Path>) -> Vec<Self> {
        let own = OWN.into_iter().filter(|contender| kernel_has(*contender)).map(|contender| Self {
            name: contender.name().to_owned(),
            version: version(contender),
            program: None,
        });
        let mut all: Vec<Self> = own.collect();
        // Behind the libraries, before the kernel.
        let place = all.iter().position(|scheme| scheme.name.starts_with("tcp")).unwrap_or(all.len());
        all.splice(place..place, peers.map(others).unwrap_or_default());
        all
    }

    /// Starts a new server.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn serve(&self, site: &Site) -> Result<Server, NetError> {
        let mut command = self.command(&site.receiver, "serve", &[])?;
        command.arg(address().to_string());
        let process = Process::start(format!("{} (receiver)", self.name), command)?;
        let certificate = process.line()?;
        Ok(Server { _process: process, certificate })
    }

    /// Sends flows of a cell, each on a new connection of one new process.
    ///
    /// # Errors
    /// If one fails, or takes longer than `patience`.
    pub fn send(
        &self,
        site: &Site,
        server: &Server,
        cell: &Cell,
        bytes: u64,
    ) -> Result<Vec<Timed>, NetError> {
        let Cell { connections, path, card_known, .. } = cell;
        let mut settings = Vec::new();
        if *connections > 1 {
            settings.push("--resume".to_owned());
        }
        if *card_known {
            settings.push(format!("--nic-rate={}", rate_text(path.rate.bits_per_second())));
        }
        let mut command = self.command(&site.sender, "time", &settings)?;
        command.arg(address().to_string()).arg(&server.certificate);
        command.args([bytes.to_string(), connections.to_string()]);
        let what = format!("{} (sender)", self.name);
        let process = Process::start(what.clone(), command)?;
        let flow = |_| {
            let why = || NetError::Process { what: what.clone(), why: "a flow took too long".to_owned() };
            let line = process.line_within(cell.patience(bytes))?.ok_or_else(why)?;
            Ok(serde_json::from_str(&line).map_err(std::io::Error::from)?)
        };
        (0..*connections).map(flow).collect()
    }

    fn command(&self, host: &Namespace, what: &str, settings: &[String]) -> Result<Command, NetError> {
        let mut command = host.command(std::env::current_exe()?);
        command.args(["net", "act"]);
        if let Some(program) = &self.program {
            command.arg("exec").arg(program);
        }
        command.arg(what);
        if self.program.is_none() {
            command.args(settings);
        }
        command.arg(&self.name);
        Ok(command)
    }
}

/// A server that runs. It ends with the value.
#[derive(Debug)]
pub struct Server {
    _process: Process,
    certificate: String,
}

fn address() -> SocketAddr {
    SocketAddr::new(RECEIVER.parse().expect("an address"), PORT)
}

/// What this program's schemes cannot do without.
fn kernel_has(contender: Contender) -> bool {
    let Some(name) = contender.kernel() else { return true };
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    known.split_whitespace().any(|known| known == name)
}

/// Implementations of others, as the program lists them.
fn others(program: &Path) -> Vec<Scheme> {
    let Ok(output) = Command::new(program).arg("list").output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let scheme = |line: &str| {
        let (name, version) = line.split_once(' ')?;
        Some(Scheme { name: name.to_owned(), version: line.to_owned(), program: Some(program.to_owned()) })
            .filter(|_| !version.is_empty())
    };
    text.lines().filter_map(scheme).collect()
}

fn version(contender: Contender) -> String {
    let name = contender.name();
    if contender.kernel().is_some() {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        return format!("Linux {}", release.trim());
    }
    let package = if name.starts_with("quinn") { "quinn" } else { "rc3-net" };
    format!("{package} {}", locked(package).unwrap_or("of an unknown version"))
}

/// The version of a package with which this program was built.
fn locked(package: &str) -> Option<&'static str> {
    let mut lines = include_str!("../../../../Cargo.lock").lines();
    let name = format!("name = \"{package}\"");
    lines.find(|line| *line == name)?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// The schemes of these names, or all if there are none.
///
/// # Errors
/// If a name is none of them.
pub fn chosen(all: Vec<Scheme>, names: &[String]) -> Result<Vec<Scheme>, NetError> {
    if names.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let own = || {
            let contender =
                Contender::from_str(name, false).ok().filter(|contender| kernel_has(*contender))?;
            Some(Scheme { name: name.clone(), version: version(contender), program: None })
        };
        let listed = all.iter().find(|scheme| scheme.name == *name).cloned();
        listed.or_else(own).ok_or_else(|| NetError::NoScheme(name.clone()))
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_build() {
        assert!(locked("quinn").unwrap().starts_with("0.11"));
        assert_eq!(locked("rc3-net"), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(locked("no such package"), None);
    }

    #[test]
    fn a_wrong_name_is_an_error_and_no_name_is_all() {
        let all = Scheme::all(None);
        assert!(
            all.iter().any(|scheme| scheme.name == "rc3")
                && all.iter().all(|scheme| !scheme.version.is_empty())
        );
        assert_eq!(chosen(all.clone(), &[]).unwrap(), all);
        let names = ["quinn-large".to_owned(), "rc3".to_owned()];
        let names: Vec<String> =
            chosen(all.clone(), &names).unwrap().into_iter().map(|scheme| scheme.name).collect();
        assert_eq!(names, ["quinn-large", "rc3"]);
        assert!(matches!(chosen(all, &["tpc".to_owned()]), Err(NetError::NoScheme(_))));
    }
}
