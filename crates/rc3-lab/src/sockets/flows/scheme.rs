//! Who controls how fast a flow is.

use clap::ValueEnum;
use std::sync::Arc;

use rc3_net::{Congestion, RlpMode, TransportConfig};
use rc3_sim::pcc;

/// A transport and its congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheme {
    /// Kernel TCP with CUBIC.
    Cubic,
    /// rc3 without RLP, NewReno.
    Rc3,
    /// The same with RLP.
    Rlp,
    /// rc3 without RLP, PCC Allegro.
    Pcc,
    /// rc3 without RLP, Kick-Ass.
    Kickass,
    /// The same with RLP.
    KickassRlp,
}

impl Scheme {
    /// The name on the command line and in the lines of flows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Rc3 => "rc3",
            Self::Rlp => "rlp",
            Self::Pcc => "pcc",
            Self::Kickass => "kickass",
            Self::KickassRlp => "kickass-rlp",
        }
    }

    /// Settings of rc3; none of kernel TCP. `seed`: of what a controller draws.
    pub(crate) fn transport(self, seed: u64) -> Option<TransportConfig> {
        let (congestion, rlp) = match self {
            Self::Cubic => return None,
            Self::Rc3 | Self::Pcc => (Congestion::NewReno, RlpMode::Off),
            Self::Rlp => (Congestion::NewReno, RlpMode::default()),
            Self::Kickass => (Congestion::KickAss, RlpMode::Off),
            Self::KickassRlp => (Congestion::KickAss, RlpMode::default()),
        };
        let mut config = TransportConfig::default();
        config.congestion(congestion).rlp(rlp);
        if self == Self::Pcc {
            config.congestion_controller_factory(Arc::new(pcc::PccConfig::new(seed)));
        }
        Some(config)
    }
}
