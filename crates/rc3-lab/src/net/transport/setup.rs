//! A transport, its settings, and what it does in its process.

use std::net::SocketAddr;

use clap::ValueEnum;
use rc3_core::units::Rate;
use serde::{Deserialize, Serialize};

use super::{Result, Timed, quic, tcp};

/// Of IPv6, so that a payload passes over either version.
const IP_UDP_HEADERS: u16 = 48;

/// What carries a scheme, and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// This project, default settings.
    Rc3,
    /// This project, RLP as the papers have it.
    Rc3Trust,
    /// This project, a code point for each level.
    Rc3PerLevel,
    /// The same, RLP as the papers have it.
    Rc3TrustPerLevel,
    /// This project, yielding to all others.
    Rc3Background,
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
    /// s2n-quic, which is in another program (`peers/`).
    S2nQuic,
    /// Kernel TCP with Reno, without TLS.
    TcpReno,
    /// Kernel TCP with CUBIC, without TLS.
    Tcp,
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
            Self::Tcp => Some(tcp::CUBIC),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Which transport.
    pub transport: Transport,
    /// Look for packets up to this MTU; without, as the transport does by itself.
    pub mtu: Option<u16>,
    /// Keep TLS sessions: a later connection of the same client resumes an earlier one.
    pub resume: bool,
    /// Bits per second of the sender's card, which rc3 cannot find out by itself.
    pub nic_rate: Option<u64>,
    /// Streams that the peer may have open, on connections that have no idle timeout.
    pub streams: Option<u32>,
    /// Workers of an endpoint of rc3, which answer the streams of a connection at the same time.
    pub workers: Option<usize>,
    /// Threads of the server; without, one for each core.
    pub threads: Option<usize>,
    /// Of what a congestion controller draws.
    pub seed: u64,
}

impl Setup {
    /// With default settings.
    pub fn new(transport: Transport) -> Self {
        let (nic_rate, streams, workers, threads) = (None, None, None, None);
        Self { transport, mtu: None, resume: false, nic_rate, streams, workers, threads, seed: 1 }
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

    pub(super) fn nic_rate(self) -> Option<Rate> {
        self.nic_rate.and_then(Rate::from_bits_per_second)
    }
}

/// A server, or where there will be one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// What carries its streams.
    pub setup: Setup,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its certificate in hexadecimal.
    pub certificate: String,
}

impl Target {
    /// Serves until killed. Prints its certificate in hexadecimal.
    pub fn serve(self) -> Result<()> {
        let Self { setup, address, .. } = self;
        if setup.transport.kernel().is_some() {
            return tcp::serve(address);
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        if let Some(threads) = setup.threads {
            builder.worker_threads(threads);
        }
        let runtime = builder.enable_all().build()?;
        // Not on this thread, which would be one more.
        match setup.transport.is_quinn() {
            true => runtime.block_on(runtime.spawn(quic::quinn::serve(setup, address)))?,
            false => runtime.block_on(runtime.spawn(quic::rc3::serve(setup, address)))?,
        }
    }

    /// The endpoint of a client of rc3.
    pub fn rc3_endpoint(&self) -> Result<rc3_net::Endpoint> {
        quic::configure::rc3::client(self)
    }

    /// A client of it.
    pub fn client(&self) -> Result<Client> {
        let (transport, address) = (self.setup.transport, self.address);
        Ok(match transport.kernel() {
            Some(congestion) => Client::Tcp(congestion, address),
            None if transport.is_quinn() => Client::Quinn(quic::configure::quinn::client(self)?, address),
            None => Client::Rc3(self.rc3_endpoint()?, address),
        })
    }
}

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Sends one stream of so many bytes over each of so many new connections, one after the other. Prints a [`Timed`] as a
    /// line of JSON for each.
    Time(u64, u32),
    /// Makes exchanges. Prints the microseconds of each on one line.
    Ask(Exchange),
    /// Makes connections and streams as its standard input orders, and keeps them until that ends.
    Hold,
}

/// What a client exchanges with a server: requests and responses, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// How many requests.
    pub count: u32,
    /// Bytes of each request and of each response.
    pub bytes: usize,
    /// A connection for each instead of one for all.
    pub new_connections: bool,
}

/// A client of the server at this address.
#[derive(Debug)]
pub enum Client {
    /// Of rc3.
    Rc3(rc3_net::Endpoint, SocketAddr),
    /// Of quinn.
    Quinn(::quinn::Endpoint, SocketAddr),
    /// Of kernel TCP with this congestion control.
    Tcp(&'static str, SocketAddr),
}

impl Client {
    /// Sends one stream over a new connection.
    pub async fn flow(&self, bytes: u64) -> Result<Timed> {
        match self {
            Self::Rc3(endpoint, address) => quic::rc3::flow(endpoint, *address, bytes).await,
            Self::Quinn(endpoint, address) => quic::quinn::flow(endpoint, *address, bytes).await,
            Self::Tcp(congestion, address) => {
                tokio::task::block_in_place(|| tcp::flow(congestion, *address, bytes))
            }
        }
    }

    /// Does it.
    pub async fn run(&self, task: Task) -> Result<()> {
        match self {
            Self::Rc3(endpoint, address) => quic::rc3::run(endpoint, *address, task).await,
            Self::Quinn(endpoint, address) => quic::quinn::run(endpoint, *address, task).await,
            Self::Tcp(congestion, address) => tcp::run(congestion, *address, task),
        }
    }
}
