//! Who is compared, and what each does in its process.

use std::net::SocketAddr;

use clap::ValueEnum;

use crate::{Result, latency::Exchange, quic, tcp};

/// Of IPv6, so that a payload passes over either version.
const IP_UDP_HEADERS: u16 = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contender {
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
    /// quinn, default settings but for an initial window of 32 packets.
    QuinnIw32,
    /// Kernel TCP without TLS.
    Tcp,
}

/// What a server does with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    /// Sends it back, or the CPU seconds if it is long.
    Mirror,
    /// Tells when its last byte was there.
    Clock,
}

impl Service {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mirror => "mirror",
            Self::Clock => "clock",
        }
    }
}

impl Contender {
    /// Who makes bulk transfers, unless told.
    pub(crate) const BULK: [Self; 6] =
        [Self::Rc3, Self::Rc3Trust, Self::Rc3Off, Self::Quinn, Self::QuinnLarge, Self::Tcp];

    /// The name on the command line and in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rc3 => "rc3",
            Self::Rc3Trust => "rc3-trust",
            Self::Rc3Off => "rc3-off",
            Self::Quinn => "quinn",
            Self::QuinnLarge => "quinn-large",
            Self::QuinnIw32 => "quinn-iw32",
            Self::Tcp => "tcp",
        }
    }
}

/// A contender, and what it is told for this run.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Setup {
    pub(crate) contender: Contender,
    /// Look for packets up to this MTU; without, as the contender does by itself.
    #[arg(long)]
    pub(crate) mtu: Option<u16>,
}

impl Setup {
    /// The longest UDP payload, in bytes.
    pub(crate) fn payload(self) -> Option<u16> {
        self.mtu.map(|mtu| mtu - IP_UDP_HEADERS)
    }

    /// The search for it: one type for rc3 and quinn, which is quinn-proto's.
    pub(crate) fn mtu_discovery(self) -> Option<quinn::MtuDiscoveryConfig> {
        self.payload().map(|bytes| {
            let mut discovery = quinn::MtuDiscoveryConfig::default();
            discovery.upper_bound(bytes);
            discovery
        })
    }

    /// Serves until killed. Prints its certificate in hexadecimal.
    pub(crate) fn serve(self, service: Service, address: SocketAddr) -> Result<()> {
        match self.contender {
            Contender::Rc3 | Contender::Rc3Trust | Contender::Rc3Off => {
                quic::rc3::serve(self, service, address)
            }
            Contender::Quinn | Contender::QuinnLarge | Contender::QuinnIw32 => {
                quic::quinn::serve(self, service, address)
            }
            Contender::Tcp => tcp::serve(service, address),
        }
    }

    /// Sends one long stream. Prints seconds and CPU seconds.
    pub(crate) fn send(self, address: SocketAddr, certificate: &str, bytes: u64) -> Result<()> {
        match self.contender {
            Contender::Rc3 | Contender::Rc3Trust | Contender::Rc3Off => {
                quic::rc3::send(self, address, certificate, bytes)
            }
            Contender::Quinn | Contender::QuinnLarge | Contender::QuinnIw32 => {
                quic::quinn::send(self, address, certificate, bytes)
            }
            Contender::Tcp => tcp::send(address, bytes),
        }
    }

    /// Sends one stream over a new connection to a server with a clock. Prints seconds from the first byte offered, when
    /// the connection is open, until the last is there.
    pub(crate) fn time(self, address: SocketAddr, certificate: &str, bytes: u64) -> Result<()> {
        match self.contender {
            Contender::Rc3 | Contender::Rc3Trust | Contender::Rc3Off => {
                quic::rc3::time(self, address, certificate, bytes)
            }
            Contender::Quinn | Contender::QuinnLarge | Contender::QuinnIw32 => {
                quic::quinn::time(self, address, certificate, bytes)
            }
            Contender::Tcp => tcp::time(address, bytes),
        }
    }

    /// Makes exchanges. Prints the microseconds of each on one line.
    pub(crate) fn ask(self, address: SocketAddr, certificate: &str, exchange: &Exchange) -> Result<()> {
        match self.contender {
            Contender::Rc3 | Contender::Rc3Trust | Contender::Rc3Off => {
                quic::rc3::ask(self, address, certificate, exchange)
            }
            Contender::Quinn | Contender::QuinnLarge | Contender::QuinnIw32 => {
                quic::quinn::ask(self, address, certificate, exchange)
            }
            Contender::Tcp => tcp::ask(address, exchange),
        }
    }
}
