//! The schemes that are compared, and the processes that run them.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use clap::ValueEnum;

use super::{
    act::Job,
    error::NetError,
    namespace::Namespace,
    process::Process,
    transport::{Setup, Target, Task, Transport},
};

/// Schemes that take part by default, in the order of the tables.
const USUAL: [Transport; 10] = [
    Transport::Rc3,
    Transport::Rc3Trust,
    Transport::Rc3Off,
    Transport::Quinn,
    Transport::QuinnIw32,
    Transport::QuinnBbr,
    Transport::S2nQuic,
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
    /// What carries it, and how.
    pub setup: Setup,
    /// The program, if it is not this one.
    pub program: Option<PathBuf>,
}

/// The two hosts of a scheme's processes.
#[derive(Debug, Clone, Copy)]
pub struct HostPair<'a> {
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
        USUAL.into_iter().filter_map(|transport| Self::find(transport, peers).ok()).collect()
    }

    /// A scheme of this program.
    ///
    /// # Errors
    /// If the kernel does not have it.
    pub fn own(transport: Transport) -> Result<Self, NetError> {
        Self::find(transport, None)
    }

    fn find(transport: Transport, peers: Option<&Path>) -> Result<Self, NetError> {
        let program = peers.filter(|_| transport == Transport::S2nQuic).map(Path::to_owned);
        let name = transport.name();
        match version(transport, program.as_deref()) {
            Some(version) => Ok(Self { name, version, setup: Setup::new(transport), program }),
            None => Err(NetError::NoScheme(name)),
        }
    }

    /// The schemes of these names, or all if there are none.
    ///
    /// # Errors
    /// If a name is none of them, or there twice.
    pub fn chosen(names: &[String], peers: Option<&Path>) -> Result<Vec<Self>, NetError> {
        let find = |name: &String| {
            let transport = Transport::from_str(name, false).map_err(|_| NetError::NoScheme(name.clone()))?;
            Self::find(transport, peers)
        };
        if let Some((_, name)) = (0..).zip(names).find(|(nth, name)| names[..*nth].contains(name)) {
            return Err(NetError::SchemeTwice(name.clone()));
        }
        if names.is_empty() { Ok(Self::all(peers)) } else { names.iter().map(find).collect() }
    }

    /// Starts a new server.
    pub fn serve(&self, place: &HostPair<'_>) -> Result<Server, NetError> {
        let setup = Setup { mtu: place.mtu, ..self.setup };
        let target = Target { setup, address: place.address, certificate: String::new() };
        let process = self.start(place.receiver, "receiver", Job::Serve(target.clone()))?;
        let target = Target { certificate: process.line()?, ..target };
        Ok(Server { process, target, scheme: self.clone() })
    }

    fn start(&self, host: &Namespace, role: &str, job: Job) -> Result<Process, NetError> {
        let job = match &self.program {
            // Not this one's words: the other program takes the job alone.
            Some(program) => Job::Exec(program.clone(), vec![serde_json::to_string(&job)?]),
            None => job,
        };
        Process::job(format!("{} ({role})", self.name), host, &job)
    }
}

/// A server that runs. It ends with the value.
#[derive(Debug)]
pub struct Server {
    /// The process.
    pub process: Process,
    /// For its clients.
    pub target: Target,
    scheme: Scheme,
}

impl Server {
    /// The name of its scheme.
    pub fn scheme(&self) -> &str {
        &self.scheme.name
    }

    /// Starts a client.
    pub fn client(&self, place: &HostPair<'_>, task: Task) -> Result<Process, NetError> {
        let target = Target { address: place.address, ..self.target.clone() };
        self.scheme.start(place.sender, "sender", Job::Client(target, task))
    }
}

#[cfg(test)]
impl Server {
    /// A process that serves nobody.
    pub(super) fn of(process: Process) -> Result<Self, NetError> {
        let scheme = Scheme::own(Transport::Tcp)?;
        let address = SocketAddr::from(([127, 0, 0, 1], PORT));
        let target = Target { setup: scheme.setup, address, certificate: String::new() };
        Ok(Self { process, target, scheme })
    }
}

/// The version of what carries a transport; `None` if it is not on this host.
fn version(transport: Transport, program: Option<&Path>) -> Option<String> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    if let Some(congestion) = transport.kernel() {
        let known = read("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let release = read("/proc/sys/kernel/osrelease");
        let is_known = known.split_whitespace().any(|known| known == congestion);
        return is_known.then(|| format!("Linux {}", release.trim()));
    }
    if transport == Transport::S2nQuic {
        let output = Command::new(program?).arg("version").output().ok()?;
        return Some(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let package = if transport.is_quinn() { "quinn" } else { "rc3-net" };
    Some(format!("{package} {}", locked(package).unwrap_or("of an unknown version")))
}

/// The version of a package with which this program was built.
fn locked(package: &str) -> Option<&'static str> {
    let mut lines = include_str!("../../../../Cargo.lock").lines();
    let name = format!("name = \"{package}\"");
    lines.find(|line| *line == name)?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
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
        assert_eq!(Scheme::chosen(&[], None).unwrap(), all);
        let names = ["quinn-large".to_owned(), "rc3".to_owned()];
        let names: Vec<String> =
            Scheme::chosen(&names, None).unwrap().into_iter().map(|scheme| scheme.name).collect();
        assert_eq!(names, ["quinn-large", "rc3"]);
        let twice = ["rc3", "tcp", "rc3"].map(str::to_owned);
        assert!(matches!(Scheme::chosen(&twice, None), Err(NetError::SchemeTwice(name)) if name == "rc3"));
        for absent in ["tpc", "s2n-quic"] {
            assert!(matches!(Scheme::chosen(&[absent.to_owned()], None), Err(NetError::NoScheme(_))));
        }
    }
}
