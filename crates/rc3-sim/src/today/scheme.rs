//! What carries a flow.

use std::{fmt, sync::Arc};

use rc3_core::{RlpMode, TransportConfig};

use super::{Cell, Memory};
use crate::startup::FastStart;

/// What carries a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// QUIC without RLP, CUBIC, an initial window of ten packets.
    Plain,
    /// rc3 by default, CUBIC.
    Guard,
    /// rc3 without a guard, RLP at the card's rate.
    Trust,
    /// rc3 without a guard, RLP at the rate of the bottleneck: what a perfect estimate would reach in one pass.
    Oracle,
    /// QUIC without RLP, CUBIC, an initial window of 32 packets.
    Iw32,
    /// QUIC without RLP that starts like SUSS.
    Suss,
    /// QUIC without RLP that starts by Rapid Start.
    RapidStart,
    /// QUIC without RLP with Careful Resume; without memory of the destination, plain.
    CarefulResume,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Plain,
        Self::Guard,
        Self::Trust,
        Self::Oracle,
        Self::Iw32,
        Self::Suss,
        Self::RapidStart,
        Self::CarefulResume,
    ];

    /// The scheme of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.to_string() == name)
    }

    /// Whether a flow may teach the next one to the same destination anything.
    pub(super) fn learns(self) -> bool {
        matches!(self, Self::Guard | Self::Trust | Self::Oracle)
    }

    /// Settings of the connection of a cell.
    pub fn transport(self, cell: &Cell) -> TransportConfig {
        let path = &cell.path;
        let mut config = TransportConfig::default();
        let (mode, rate) = match self {
            Self::Guard => (RlpMode::Guard, path.card_rate()),
            Self::Trust => (RlpMode::Trust, path.card_rate()),
            Self::Oracle => (RlpMode::Trust, Some(path.rate)),
            _ => (RlpMode::Off, path.card_rate()),
        };
        config.rlp(mode).nic_rate(rate);
        let start = match (self, cell.memory) {
            (Self::Suss, _) => Some(FastStart::Suss),
            (Self::RapidStart, _) => Some(FastStart::RapidStart),
            (Self::CarefulResume, Memory::Taught(factor)) => {
                Some(FastStart::CarefulResume((path.product() * factor) as u64))
            }
            _ => None,
        };
        if let Some(start) = start {
            config.congestion_controller_factory(Arc::new(start));
        }
        if self == Self::Iw32 {
            config.initial_packets(Some(32));
        }
        config
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Guard => "guard",
            Self::Trust => "trust",
            Self::Oracle => "oracle",
            Self::Iw32 => "iw32",
            Self::Suss => "suss",
            Self::RapidStart => "rapid-start",
            Self::CarefulResume => "careful-resume",
        })
    }
}
