//! What carries a flow.

use std::fmt;

use rc3_core::{RlpMode, TransportConfig};

use super::Path;

/// What carries a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// QUIC without RLP, CUBIC.
    Plain,
    /// rc3 by default, CUBIC.
    Guard,
    /// rc3 without a guard, RLP at the card's rate.
    Trust,
    /// rc3 without a guard, RLP at the rate of the bottleneck: what a perfect estimate would reach in one pass.
    Oracle,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Guard, Self::Trust, Self::Oracle];

    /// The scheme of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.to_string() == name)
    }

    /// Settings of a connection over this path.
    pub fn transport(self, path: &Path) -> TransportConfig {
        let mut config = TransportConfig::default();
        let (mode, rate) = match self {
            Self::Plain => (RlpMode::Off, path.card_rate()),
            Self::Guard => (RlpMode::Guard, path.card_rate()),
            Self::Trust => (RlpMode::Trust, path.card_rate()),
            Self::Oracle => (RlpMode::Trust, Some(path.rate)),
        };
        config.rlp(mode).nic_rate(rate);
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
        })
    }
}
