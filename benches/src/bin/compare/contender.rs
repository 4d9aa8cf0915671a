//! Who is compared, and what each does in its process.

use std::net::SocketAddr;

use clap::ValueEnum;

use crate::{Result, latency::Exchange, quic, tcp};

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
    /// Kernel TCP without TLS.
    Tcp,
}

impl Contender {
    pub(crate) const ALL: [Self; 6] =
        [Self::Rc3, Self::Rc3Trust, Self::Rc3Off, Self::Quinn, Self::QuinnLarge, Self::Tcp];

    /// The name on the command line and in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rc3 => "rc3",
            Self::Rc3Trust => "rc3-trust",
            Self::Rc3Off => "rc3-off",
            Self::Quinn => "quinn",
            Self::QuinnLarge => "quinn-large",
            Self::Tcp => "tcp",
        }
    }

    /// Serves until killed. Prints its certificate in hexadecimal, then a line of CPU seconds for each long stream.
    pub(crate) fn serve(self, address: SocketAddr) -> Result<()> {
        match self {
            Self::Rc3 | Self::Rc3Trust | Self::Rc3Off => quic::rc3::serve(self, address),
            Self::Quinn | Self::QuinnLarge => quic::quinn::serve(self, address),
            Self::Tcp => tcp::serve(address),
        }
    }

    /// Sends one long stream. Prints seconds and CPU seconds.
    pub(crate) fn send(self, address: SocketAddr, certificate: &str, bytes: u64) -> Result<()> {
        match self {
            Self::Rc3 | Self::Rc3Trust | Self::Rc3Off => quic::rc3::send(self, address, certificate, bytes),
            Self::Quinn | Self::QuinnLarge => quic::quinn::send(self, address, certificate, bytes),
            Self::Tcp => tcp::send(address, bytes),
        }
    }

    /// Makes exchanges. Prints the microseconds of each on one line.
    pub(crate) fn ask(self, address: SocketAddr, certificate: &str, exchange: &Exchange) -> Result<()> {
        match self {
            Self::Rc3 | Self::Rc3Trust | Self::Rc3Off => quic::rc3::ask(self, address, certificate, exchange),
            Self::Quinn | Self::QuinnLarge => quic::quinn::ask(self, address, certificate, exchange),
            Self::Tcp => tcp::ask(address, exchange),
        }
    }
}
