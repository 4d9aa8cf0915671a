//! A flow: how it introduces itself to the receiver, and what is written down when it has arrived.

use std::time::Instant;

use clap::ValueEnum;
use rc3_lab::sockets::clock;
use rc3_net::{KickAssStats, SwitchCounts};

use crate::{Result, scheme::Scheme};

/// First line of what the receiver prints.
pub(crate) const COLUMNS: &str = "sender,number,scheme,bytes,begun_ns,seconds";

/// The first bytes of each flow, which count as part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Whose flow it is.
    pub(crate) sender: u32,
    /// Counts the flows of a sender.
    pub(crate) number: u32,
    pub(crate) scheme: Scheme,
    /// Before its connection was made, nanoseconds of [`clock::now`].
    pub(crate) begun: u64,
    /// Bytes of the flow.
    pub(crate) len: u64,
}

impl Header {
    pub(crate) const LEN: usize = 25;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&self.sender.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8] = self.scheme as u8;
        bytes[9..17].copy_from_slice(&self.begun.to_le_bytes());
        bytes[17..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Self::LEN]) -> Result<Self> {
        let scheme = Scheme::value_variants().get(usize::from(bytes[8])).ok_or("an unknown scheme")?;
        Ok(Self {
            sender: u32::from_le_bytes(bytes[..4].try_into()?),
            number: u32::from_le_bytes(bytes[4..8].try_into()?),
            scheme: *scheme,
            begun: u64::from_le_bytes(bytes[9..17].try_into()?),
            len: u64::from_le_bytes(bytes[17..].try_into()?),
        })
    }

    /// Prints its line: its last byte has just arrived.
    pub(crate) fn arrived(&self) {
        let Self { sender, number, scheme, begun, len } = self;
        let seconds = clock::now().saturating_sub(*begun) as f64 / 1e9;
        println!("{sender},{number},{},{len},{begun},{seconds:.6}", scheme.name());
    }

    /// Prints its line of modes: all of it is acknowledged.
    pub(crate) fn steered(&self, kickass: &KickAssStats) {
        let Self { sender, number, begun, .. } = self;
        let seconds = clock::now().saturating_sub(*begun) as f64 / 1e9;
        let steered = kickass.steered_until(Instant::now()).as_secs_f64();
        let SwitchCounts { to_kickass, by_silence, by_congestion, .. } = kickass.switches;
        let signals = kickass.signals;
        println!(
            "{sender},{number},{seconds:.6},{steered:.6},{signals},{to_kickass},{by_silence},{by_congestion}"
        );
    }
}
