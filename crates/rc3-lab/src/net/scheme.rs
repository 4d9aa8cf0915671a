//! The schemes that are compared, and the processes that run them.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use clap::ValueEnum;

use super::{error::NetError, namespace::Namespace, process::Process, transport::Transport};

/// Schemes of this program that take part by default, in the order of the tables.
const OWN: [Transport; 9] = [
    Transport::Rc3,
    Transport::Rc3Trust,
    Transport::Rc3Off,
    Transport::Quinn,
    Transport::QuinnIw32,
    Transport::QuinnBbr,
    Transport::TcpReno,
    Transport::Tcp,
    Transport::TcpBbr,
];

/// Where flows arrive.
pub const PORT: u16 = 14_433;

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

/// The two hosts of a scheme's processes.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Of clients.
    pub sender: &'a Namespace,
    /// Of servers.
    pub receiver: &'a Namespace,
    /// Where servers listen.
    pub address: SocketAddr,
    /// The longest IP packet, in bytes; without, schemes do what they do by themselves.
    pub mtu: Option<u16>,
}

impl Scheme {
    /// All schemes that this host can run. `peers` is the program with implementations of others, if there is one.
    pub fn all(peers: Option<&Path>) -> Vec<Self> {
        let mut all: Vec<Self> = OWN.into_iter().filter_map(|transport| Self::own(transport).ok()).collect();
        // Behind the libraries, before the kernel.
        let place = all.iter().position(|scheme| scheme.name.starts_with("tcp")).unwrap_or(all.len());
        all.splice(place..place, peers.map(others).unwrap_or_default());
        all
    }

    /// A scheme of this program.
    ///
    /// # Errors
    /// If the kernel does not have it.
    pub fn own(transport: Transport) -> Result<Self, NetError> {
        let has = |name| {
            let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
            fs::read_to_string(file).unwrap_or_default().split_whitespace().any(|known| known == name)
        };
        match transport.kernel().is_none_or(has) {
            true => Ok(Self { name: transport.name(), version: version(transport), program: None }),
            false => Err(NetError::NoScheme(transport.name())),
        }
    }

    /// Starts a new server.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn serve(&self, place: &Place<'_>, settings: &[String]) -> Result<Server, NetError> {
        let command = place.receiver.command(std::env::current_exe()?);
        let command = self.completed(command, "serve", place, &[], settings);
        let process = Process::start(format!("{} (receiver)", self.name), command)?;
        let certificate = process.line()?;
        Ok(Server { process, certificate })
    }

    /// Starts a client that does this with these words. Settings are for schemes of this program only.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn client(
        &self,
        place: &Place<'_>,
        server: &Server,
        what: &str,
        words: &[String],
        settings: &[String],
    ) -> Result<Process, NetError> {
        let words = [std::slice::from_ref(&server.certificate), words].concat();
        let command = place.sender.command(std::env::current_exe()?);
        let command = self.completed(command, what, place, &words, settings);
        Process::start(format!("{} (sender)", self.name), command)
    }

    /// A command line of this program with its words.
    pub fn completed(
        &self,
        mut command: Command,
        what: &str,
        place: &Place<'_>,
        words: &[String],
        settings: &[String],
    ) -> Command {
        command.args(["net", "act"]);
        if let Some(program) = &self.program {
            command.arg("exec").arg(program);
        }
        command.args([what, &self.name, &place.address.to_string()]).args(words);
        if let Some(mtu) = place.mtu {
            command.args(["--mtu", &mtu.to_string()]);
        }
        if self.program.is_none() {
            command.args(settings);
        }
        command
    }
}

/// A server that runs. It ends with the value.
#[derive(Debug)]
pub struct Server {
    /// The process.
    pub process: Process,
    /// Its certificate in hexadecimal.
    pub certificate: String,
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

fn version(transport: Transport) -> String {
    if transport.kernel().is_some() {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        return format!("Linux {}", release.trim());
    }
    let package = if transport.is_quinn() { "quinn" } else { "rc3-net" };
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
        let listed = all.iter().find(|scheme| scheme.name == *name).cloned();
        let own = || Scheme::own(Transport::from_str(name, false).ok()?).ok();
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
