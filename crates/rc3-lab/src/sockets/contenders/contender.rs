//! Who is compared, and what each does in its process.

use std::net::SocketAddr;

use clap::ValueEnum;
use rc3_core::units::Rate;

use super::{Exchange, Result, quic, tcp};
use crate::sockets::quantity::parse_rate;

/// Of IPv6, so that a payload passes over either version.
const IP_UDP_HEADERS: u16 = 48;

/// A transport and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Contender {
    /// This project, default settings.
    Rc3,
    /// This project, RLP as the papers have it.
    Rc3Trust,
    /// This project without RLP: what the primary costs behind our seam.
    Rc3Off,
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

/// What a server does with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Service {
    /// Sends it back, or the CPU seconds if it is long.
    Mirror,
    /// Reports when its last byte was there, and its CPU time.
    Clock,
}

impl Service {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mirror => "mirror",
            Self::Clock => "clock",
        }
    }
}

impl Contender {
    /// Those that make bulk transfers by default.
    pub const BULK: [Self; 6] =
        [Self::Rc3, Self::Rc3Trust, Self::Rc3Off, Self::Quinn, Self::QuinnLarge, Self::Tcp];

    /// The name on the command line and in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rc3 => "rc3",
            Self::Rc3Trust => "rc3-trust",
            Self::Rc3Off => "rc3-off",
            Self::Quinn => "quinn",
            Self::QuinnLarge => "quinn-large",
            Self::QuinnIw32 => "quinn-iw32",
            Self::QuinnBbr => "quinn-bbr",
            Self::Tcp => "tcp",
            Self::TcpReno => "tcp-reno",
            Self::TcpBbr => "tcp-bbr",
        }
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

    /// Which of the libraries it is.
    fn library(self) -> Library {
        match self {
            Self::Rc3 | Self::Rc3Trust | Self::Rc3Off => Library::Rc3,
            Self::Quinn | Self::QuinnLarge | Self::QuinnIw32 | Self::QuinnBbr => Library::Quinn,
            Self::Tcp => Library::Tcp("cubic"),
            Self::TcpReno => Library::Tcp("reno"),
            Self::TcpBbr => Library::Tcp("bbr"),
        }
    }
}

/// What carries a contender.
enum Library {
    Rc3,
    Quinn,
    /// With this congestion control.
    Tcp(&'static str),
}

/// A contender and its settings for one run.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Setup {
    /// Which transport.
    pub contender: Contender,
    /// Look for packets up to this MTU; without, as the contender does by itself.
    #[arg(long)]
    pub mtu: Option<u16>,
    /// Keep TLS sessions: a later connection of the same client resumes an earlier one.
    #[arg(long)]
    pub resume: bool,
    /// Rate of the sender's card, which rc3 cannot find out by itself.
    #[arg(long, value_parser = parse_rate)]
    pub nic_rate: Option<Rate>,
}

impl Setup {
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
    pub fn serve(self, service: Service, address: SocketAddr) -> Result<()> {
        match self.contender.library() {
            Library::Rc3 => quic::rc3::serve(self, service, address),
            Library::Quinn => quic::quinn::serve(self, service, address),
            Library::Tcp(_) => tcp::serve(service, address),
        }
    }

    /// Sends one long stream. Prints seconds and CPU seconds.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send(self, address: SocketAddr, certificate: &str, bytes: u64) -> Result<()> {
        match self.contender.library() {
            Library::Rc3 => quic::rc3::send(self, address, certificate, bytes),
            Library::Quinn => quic::quinn::send(self, address, certificate, bytes),
            Library::Tcp(congestion) => tcp::send(congestion, address, bytes),
        }
    }

    /// Sends one stream over each of so many new connections, one after the other, to a server with a clock. Prints
    /// what became of each, a [`Timed`](super::Timed) as a line of JSON.
    ///
    /// # Errors
    /// If a connection fails.
    pub fn time(self, address: SocketAddr, certificate: &str, bytes: u64, connections: u32) -> Result<()> {
        match self.contender.library() {
            Library::Rc3 => quic::rc3::time(self, address, certificate, bytes, connections),
            Library::Quinn => quic::quinn::time(self, address, certificate, bytes, connections),
            Library::Tcp(congestion) => tcp::time(congestion, address, bytes, connections),
        }
    }

    /// Makes exchanges. Prints the microseconds of each on one line.
    ///
    /// # Errors
    /// If a connection fails.
    pub fn ask(self, address: SocketAddr, certificate: &str, exchange: &Exchange) -> Result<()> {
        match self.contender.library() {
            Library::Rc3 => quic::rc3::ask(self, address, certificate, exchange),
            Library::Quinn => quic::quinn::ask(self, address, certificate, exchange),
            Library::Tcp(congestion) => tcp::ask(congestion, address, exchange),
        }
    }
}
