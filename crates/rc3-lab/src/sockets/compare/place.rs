//! Where the two processes of a run sit: on loopback, in two network namespaces with a veth pair between them, or in two
//! that are there already.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use rc3_lab::sockets::contenders::{Contender, Result, Service};

pub(crate) enum Place {
    Loopback {
        mtu: Option<u16>,
    },
    Veth {
        left: String,
        right: String,
        mtu: Option<u16>,
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
        Self::Loopback { mtu }
    }

    /// Makes the namespaces; they go with the value.
    pub(crate) fn veth(mtu: Option<u16>) -> Result<Self> {
        let name = |end| format!("rc3-compare-{end}-{}", std::process::id());
        let (left, right) = (name("a"), name("b"));
        ip(&["netns", "add", &left])?;
        let place = Self::Veth { left: left.clone(), right: right.clone(), mtu };
        ip(&["netns", "add", &right])?;
        ip(&["-n", &left, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", &right])?;
        for (namespace, address) in [(&left, "10.85.0.1/24"), (&right, "10.85.0.2/24")] {
            ip(&["-n", namespace, "addr", "add", address, "dev", "veth0"])?;
            let mtu = mtu.unwrap_or(1500).to_string();
            ip(&["-n", namespace, "link", "set", "veth0", "mtu", &mtu, "up"])?;
        }
        Ok(place)
    }

    /// What to call it in a table.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Loopback { .. } => "loopback",
            Self::Veth { .. } => "a veth pair",
            Self::Ready { .. } => "a path between namespaces",
        }
    }

    /// What both processes are told of it.
    fn mtu(&self) -> Vec<String> {
        let mtu = match self {
            Self::Loopback { mtu } | Self::Veth { mtu, .. } => *mtu,
            Self::Ready { .. } => None,
        };
        mtu.iter().flat_map(|mtu| ["--mtu".to_owned(), mtu.to_string()]).collect()
    }

    fn server_address(&self) -> SocketAddr {
        match self {
            Self::Loopback { .. } => SocketAddr::from(([127, 0, 0, 1], 14_433)),
            Self::Veth { .. } => SocketAddr::from(([10, 85, 0, 2], 14_433)),
            Self::Ready { address, .. } => *address,
        }
    }

    fn command(&self, is_server: bool) -> Result<Command> {
        let program = std::env::current_exe()?;
        Ok(match self {
            Self::Loopback { .. } => Command::new(program),
            Self::Veth { left: client, right: server, .. } | Self::Ready { client, server, .. } => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", if is_server { server } else { client }]).arg(program);
                command
            }
        })
    }

    /// Starts the server, lets the client do `action`, and returns what the client printed.
    pub(crate) fn run(
        &self,
        contender: Contender,
        service: Service,
        action: &str,
        arguments: &[String],
    ) -> Result<String> {
        let address = self.server_address().to_string();
        let mut command = self.command(true)?;
        command
            .args(["serve", contender.name(), &address, service.name()])
            .args(self.mtu())
            .stdout(Stdio::piped());
        let mut server = Server(command.spawn()?);
        let mut certificate = String::new();
        let stdout = server.0.stdout.take().ok_or("no output from the server")?;
        BufReader::new(stdout).read_line(&mut certificate)?;
        let client = self
            .command(false)?
            .args([action, contender.name(), &address, certificate.trim()])
            .args(arguments)
            .args(self.mtu())
            .stderr(Stdio::inherit())
            .output()?;
        if !client.status.success() {
            return Err(format!("{} ended with {}", contender.name(), client.status).into());
        }
        Ok(String::from_utf8(client.stdout)?)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Self::Veth { left, right, .. } = self {
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
