//! Who takes part, and the program that plays it.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use clap::{ValueEnum, builder::PossibleValue};
use rc3_lab::sockets::{
    contenders::{Contender, Result},
    peers,
};

/// A contender of this program, or an implementation of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Participant {
    Own(Contender),
    S2nQuic,
}

static ALL: LazyLock<Vec<Participant>> = LazyLock::new(|| {
    let own = Contender::value_variants().iter().copied().map(Participant::Own);
    own.chain([Participant::S2nQuic]).collect()
});

impl Participant {
    /// The name on the command line and in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Own(contender) => contender.name(),
            Self::S2nQuic => "s2n-quic",
        }
    }

    /// The program to start for it. `peers`: where others are, if not beside this program.
    pub(crate) fn program(self, peers: Option<&Path>) -> Result<PathBuf> {
        match self {
            Self::Own(_) => Ok(std::env::current_exe()?),
            Self::S2nQuic => peers::find(peers).ok_or_else(|| {
                "there is no rc3-peers beside this program: build it as docs/LABORATORY.md says, or name it with --peers"
                    .into()
            }),
        }
    }
}

impl From<Contender> for Participant {
    fn from(contender: Contender) -> Self {
        Self::Own(contender)
    }
}

impl ValueEnum for Participant {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Own(contender) => contender.to_possible_value(),
            Self::S2nQuic => {
                Some(PossibleValue::new(self.name()).help("s2n-quic, default settings; of rc3-peers"))
            }
        }
    }
}
