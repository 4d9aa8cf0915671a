//! A transport, its settings, and what it does in its process.

use std::net::SocketAddr;

use clap::ValueEnum;
use rc3_core::units::Rate;

use super::{BLOCK, CLOCK, Result, Timed, quic, tcp};
use crate::net::args::parse_rate;

/// Of IPv6, so that a payload passes over either version.
const IP_UDP_HEADERS: u16 = 48;

/// What carries a scheme, and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Transport {
    /// This project, default settings.
    Rc3,
    /// This project, RLP as the papers have it.
    Rc3Trust,
    /// This project without RLP: what the primary costs behind our seam.
    Rc3Off,
    /// This project without RLP, NewReno.
    Rc3Newreno,
    /// This project, NewReno.
    Rc3NewrenoRlp,
    /// This project without RLP, PCC Allegro.
    Rc3Pcc,
    /// This project without RLP, Kick-Ass.
    Rc3Kickass,
    /// This project, Kick-Ass.
    Rc3KickassRlp,
    /// quinn, default settings.
    Quinn,
    /// quinn with windows and socket buffers as large as ours.
    QuinnLarge,
    /// quinn, default settings except an initial window of 32 packets.
    QuinnIw32,
    /// quinn with BBR, which it calls experimental.
    QuinnBbr,
    /// Kernel TCP with CUBIC, without TLS.
    Tcp,
    /// Kernel TCP with Reno, without TLS.
    TcpReno,
    /// Kernel TCP with BBR, without TLS.
    TcpBbr,
}

impl Transport {
    /// The name on the command line and in the tables.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Its congestion control as the kernel names it, if it is kernel TCP.
    pub fn kernel(self) -> Option<&'static str> {
        match self {
            Self::Tcp => Some("cubic"),
            Self::TcpReno => Some("reno"),
            Self::TcpBbr => Some("bbr"),
            _ => None,
        }
    }

    /// Whether it is quinn.
    pub fn is_quinn(self) -> bool {
        matches!(self, Self::Quinn | Self::QuinnLarge | Self::QuinnIw32 | Self::QuinnBbr)
    }
}

/// A transport and its settings for one run.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Setup {
    /// Which transport.
    pub transport: Transport,
    /// Look for packets up to this MTU; without, as the transport does by itself.
    #[arg(long)]
    pub mtu: Option<u16>,
    /// Keep TLS sessions: a later connection of the same client resumes an earlier one.
    #[arg(long)]
    pub resume: bool,
    /// Rate of the sender's card, which rc3 cannot find out by itself.
    #[arg(long, value_parser = parse_rate)]
    pub nic_rate: Option<Rate>,
    /// Streams that the peer may have open, on connections that have no idle timeout.
    #[arg(long)]
    pub streams: Option<u32>,
    /// Workers of an endpoint of rc3, which answer the streams of a connection at the same time.
    #[arg(long)]
    pub workers: Option<usize>,
    /// Threads of the server; without, one for each core.
    #[arg(long)]
    pub threads: Option<usize>,
    /// Of what a congestion controller draws.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Setup {
    /// With default settings.
    pub fn new(transport: Transport, seed: u64) -> Self {
        Self {
            transport,
            mtu: None,
            resume: false,
            nic_rate: None,
            streams: None,
            workers: None,
            threads: None,
            seed,
        }
    }

    /// The longest UDP payload, in bytes.
    pub(super) fn payload(self) -> Option<u16> {
        self.mtu.map(|mtu| mtu - IP_UDP_HEADERS)
    }

    /// The search for it: one type for rc3 and quinn, which is quinn-proto's.
    pub(super) fn mtu_discovery(self) -> Option<quinn::MtuDiscoveryConfig> {
        self.payload().map(|bytes| {
            let mut discovery = quinn::MtuDiscoveryConfig::default();
            discovery.upper_bound(bytes);
            discovery
        })
    }

    /// Serves until killed. Prints its certificate in hexadecimal.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn serve(self, address: SocketAddr) -> Result<()> {
        if self.transport.kernel().is_some() {
            return tcp::serve(address);
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        if let Some(threads) = self.threads {
            builder.worker_threads(threads);
        }
        let runtime = builder.enable_all().build()?;
        // Not on this thread, which would be one more.
        match self.transport.is_quinn() {
            true => runtime.block_on(runtime.spawn(quic::quinn::serve(self, address)))?,
            false => runtime.block_on(runtime.spawn(quic::rc3::serve(self, address)))?,
        }
    }

    /// The endpoint of a client of rc3.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn rc3_endpoint(self, address: SocketAddr, certificate: &str) -> Result<rc3_net::Endpoint> {
        quic::configure::rc3::client(self, certificate, address)
    }

    /// A client of a server with this certificate.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn client(self, address: SocketAddr, certificate: &str) -> Result<Client> {
        let carrier = match self.transport.kernel() {
            Some(congestion) => Carrier::Tcp(congestion),
            None if self.transport.is_quinn() => {
                Carrier::Quinn(quic::configure::quinn::client(self, certificate, address)?)
            }
            None => Carrier::Rc3(self.rc3_endpoint(address, certificate)?),
        };
        let mut block = vec![7; BLOCK];
        block[0] = CLOCK;
        Ok(Client { carrier, address, block })
    }
}

/// What carries the connections of a client.
#[derive(Debug)]
enum Carrier {
    Rc3(rc3_net::Endpoint),
    Quinn(::quinn::Endpoint),
    /// With this congestion control.
    Tcp(&'static str),
}

/// What a client exchanges with a server: requests and responses, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub struct Exchange {
    /// How many requests.
    pub count: u32,
    /// Bytes of each request and of each response.
    pub bytes: usize,
    /// A connection for each instead of one for all.
    #[arg(long)]
    pub new_connections: bool,
}

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    carrier: Carrier,
    address: SocketAddr,
    /// What streams consist of; the first byte is [`CLOCK`].
    block: Vec<u8>,
}

impl Client {
    /// Sends one stream over a new connection.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn flow(&self, bytes: u64) -> Result<Timed> {
        match &self.carrier {
            Carrier::Rc3(endpoint) => quic::rc3::flow(endpoint, self.address, bytes, &self.block).await,
            Carrier::Quinn(endpoint) => quic::quinn::flow(endpoint, self.address, bytes, &self.block).await,
            Carrier::Tcp(congestion) => {
                tokio::task::block_in_place(|| tcp::flow(congestion, self.address, bytes, &self.block))
            }
        }
    }

    /// Sends one stream over each of so many new connections, one after the other. Prints what became of each, a
    /// [`Timed`] as a line of JSON.
    ///
    /// # Errors
    /// If a connection fails.
    pub async fn time(&self, bytes: u64, connections: u32) -> Result<()> {
        for _ in 0..connections {
            println!("{}", serde_json::to_string(&self.flow(bytes).await?)?);
            match &self.carrier {
                Carrier::Rc3(endpoint) => endpoint.wait_idle().await,
                Carrier::Quinn(endpoint) => endpoint.wait_idle().await,
                Carrier::Tcp(_) => {}
            }
        }
        Ok(())
    }

    /// Makes exchanges. Prints the microseconds of each on one line.
    ///
    /// # Errors
    /// If a connection fails.
    pub async fn ask(&self, exchange: &Exchange) -> Result<()> {
        match &self.carrier {
            Carrier::Rc3(endpoint) => quic::rc3::ask(endpoint, self.address, exchange).await,
            Carrier::Quinn(endpoint) => quic::quinn::ask(endpoint, self.address, exchange).await,
            Carrier::Tcp(congestion) => tcp::ask(congestion, self.address, exchange),
        }
    }

    /// Makes connections and streams as its standard input orders, and keeps them until that ends.
    ///
    /// # Errors
    /// If a connection fails.
    pub async fn hold(&self) -> Result<()> {
        match &self.carrier {
            Carrier::Rc3(endpoint) => quic::rc3::hold(endpoint, self.address).await,
            Carrier::Quinn(endpoint) => quic::quinn::hold(endpoint, self.address).await,
            Carrier::Tcp(_) => Err("kernel TCP has no streams".into()),
        }
    }
}
