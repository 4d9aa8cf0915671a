//! Where the two processes of a run sit: on loopback, in two network namespaces with a veth pair between them, or in two
//! that are there already.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rc3_lab::sockets::contenders::{Result, Service};

use crate::participant::Participant;

pub(crate) struct Place {
    network: Network,
    /// Up to which participants look for longer packets.
    mtu: Option<u16>,
    /// The program with implementations of others, if it is not beside this one.
    peers: Option<PathBuf>,
}

enum Network {
    Loopback,
    Veth {
        left: String,
        right: String,
    },
    /// Somebody else made the namespaces, and what is between them.
    Ready {
        client: String,
        server: String,
        address: SocketAddr,
    },
}

impl Place {
    pub(crate) fn loopback(mtu: Option<u16>) -> Self {
        Self { network: Network::Loopback, mtu, peers: None }
    }

    /// Makes the namespaces; they go with the value.
    pub(crate) fn veth(mtu: Option<u16>) -> Result<Self> {
        let name = |end| format!("rc3-compare-{end}-{}", std::process::id());
        let (left, right) = (name("a"), name("b"));
        ip(&["netns", "add", &left])?;
        let network = Network::Veth { left: left.clone(), right: right.clone() };
        ip(&["netns", "add", &right])?;
        ip(&["-n", &left, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", &right])?;
        for (namespace, address) in [(&left, "10.85.0.1/24"), (&right, "10.85.0.2/24")] {
            ip(&["-n", namespace, "addr", "add", address, "dev", "veth0"])?;
            let mtu = mtu.unwrap_or(1500).to_string();
            ip(&["-n", namespace, "link", "set", "veth0", "mtu", &mtu, "up"])?;
        }
        Ok(Self { network, mtu, peers: None })
    }

    /// Namespaces that are there already, with a server at this address.
    pub(crate) fn ready(client: String, server: String, address: SocketAddr) -> Self {
        Self { network: Network::Ready { client, server, address }, mtu: None, peers: None }
    }

    /// Where implementations of others are, if not beside this program.
    pub(crate) fn with_peers(self, peers: Option<&Path>) -> Self {
        Self { peers: peers.map(Path::to_owned), ..self }
    }

    /// What to call it in a table.
    pub(crate) fn name(&self) -> &'static str {
        match self.network {
            Network::Loopback => "loopback",
            Network::Veth { .. } => "a veth pair",
            Network::Ready { .. } => "a path between namespaces",
        }
    }

    /// The option that both processes get.
    fn mtu(&self) -> Vec<String> {
        self.mtu.iter().flat_map(|mtu| ["--mtu".to_owned(), mtu.to_string()]).collect()
    }

    fn server_address(&self) -> SocketAddr {
        match self.network {
            Network::Loopback => SocketAddr::from(([127, 0, 0, 1], 14_433)),
            Network::Veth { .. } => SocketAddr::from(([10, 85, 0, 2], 14_433)),
            Network::Ready { address, .. } => address,
        }
    }

    fn command(&self, participant: Participant, is_server: bool) -> Result<Command> {
        let program = participant.program(self.peers.as_deref())?;
        Ok(match &self.network {
            Network::Loopback => Command::new(program),
            Network::Veth { left: client, right: server } | Network::Ready { client, server, .. } => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", if is_server { server } else { client }]).arg(program);
                command
            }
        })
    }

    /// Starts the server, lets the client do `action`, and returns what the client printed.
    pub(crate) fn run(
        &self,
        participant: Participant,
        service: Service,
        action: &str,
        arguments: &[String],
    ) -> Result<String> {
        let address = self.server_address().to_string();
        let mut command = self.command(participant, true)?;
        command
            .args(["serve", participant.name(), &address, service.name()])
            .args(self.mtu())
            // Open as long as the server is needed: others end with it.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut server = Server(command.spawn()?);
        let mut certificate = String::new();
        let stdout = server.0.stdout.take().ok_or("no output from the server")?;
        BufReader::new(stdout).read_line(&mut certificate)?;
        let client = self
            .command(participant, false)?
            .args([action, participant.name(), &address, certificate.trim()])
            .args(arguments)
            .args(self.mtu())
            .stderr(Stdio::inherit())
            .output()?;
        if !client.status.success() {
            return Err(format!("{} ended with {}", participant.name(), client.status).into());
        }
        Ok(String::from_utf8(client.stdout)?)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Self::Veth { left, right } = self {
            for namespace in [left, right] {
                // What is not there need not be deleted.
                let _ = ip(&["netns", "delete", namespace]);
            }
        }
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already, if this fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let status = Command::new("ip").args(arguments).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("ip {} failed; root?", arguments.join(" ")).into()) }
}
