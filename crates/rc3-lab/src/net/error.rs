//! Why a laboratory cannot measure.

use std::{io, path::PathBuf, time::Duration};

use rc3_text::units::about_time;
use thiserror::Error;

/// See the variants.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetError {
    /// There is no such experiment.
    #[error("there is no experiment `{0}`")]
    NoExperiment(String),
    /// There is no such scheme on this host.
    #[error("there is no scheme `{0}` on this host")]
    NoScheme(String),
    /// A scheme was named twice.
    #[error("the scheme `{0}` is named twice")]
    SchemeTwice(String),
    /// There is no such case of `interop`.
    #[error("`interop` has no case `{name}`; it has {known}")]
    NoCase {
        /// What was typed.
        name: String,
        /// All cases.
        known: String,
    },
    /// The experiment `trace` was given none.
    #[error("the experiment `trace` needs a trace")]
    NoTrace,
    /// The host lacks what the laboratory needs.
    #[error("this host lacks {}", .0.join(", "))]
    Missing(Vec<String>),
    /// A process of a measurement or a tool of the system failed.
    #[error("{what}: {why}")]
    Process {
        /// Which.
        what: String,
        /// Why.
        why: String,
    },
    /// The WAN does not do what its configuration asks for.
    #[error("the WAN is not valid: {0}")]
    Invalid(String),
    /// Packets left the WAN too late.
    #[error("the machine is too busy: 99 % of the packets left up to {} late, the limit is {}", about_time(*.late), about_time(*.limit))]
    Busy {
        /// How late.
        late: Duration,
        /// How late they may be.
        limit: Duration,
    },
    /// Turns or flows failed; the others are in the report.
    #[error("{turns} turns or flows failed, the last one: {last}")]
    Failed {
        /// How many.
        turns: usize,
        /// Which was the last, and why it failed.
        last: String,
    },
    /// Interrupted by a signal.
    #[error("interrupted")]
    Interrupted,
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A process has printed something else than expected.
    #[error("a process has printed something else: {0}")]
    Json(#[from] serde_json::Error),
    /// Anything else of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl NetError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoExperiment(_) => "rc3-lab net list prints the experiments",
            Self::NoScheme(_) => "rc3-lab net check prints the schemes",
            Self::SchemeTwice(_) => "name each scheme once",
            Self::NoCase { .. } => "name cases by --cases, or leave it out for all",
            Self::NoTrace => {
                "name a file by --trace, with a time in milliseconds per line at which 1500 bytes are delivered"
            }
            Self::Missing(_) => "install or build it; rc3-lab net check explains what every experiment needs",
            Self::Process { .. } | Self::Json(_) => {
                "rc3-lab net check names what is missing; with RUST_LOG=debug processes explain more"
            }
            Self::Invalid(_) => "stop other programs, or lower --rate",
            Self::Busy { .. } => "stop other programs, lower --rate, or raise --lateness",
            Self::Failed { .. } => "report.md lists all of them, and has what was measured",
            Self::Interrupted => "all namespaces are removed",
            Self::File { .. } | Self::Io(_) => rc3_cli::output::SYSTEM_HINT,
        }
    }

    /// How the command ends.
    pub fn code(&self) -> u8 {
        match self {
            Self::NoExperiment(_)
            | Self::NoScheme(_)
            | Self::SchemeTwice(_)
            | Self::NoCase { .. }
            | Self::NoTrace => 2,
            Self::Missing(_) => 3,
            Self::Busy { .. } => 4,
            // As shells report SIGINT.
            Self::Interrupted => 130,
            _ => 1,
        }
    }
}

/// The table of the codes, for `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  failed
    2  wrong usage
    3  this host lacks something
    4  the machine is too busy to measure
    130  interrupted";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_code() {
        let listed: Vec<u8> =
            EXIT_CODES.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
        let busy = NetError::Busy { late: Duration::ZERO, limit: Duration::ZERO };
        let errors = [
            NetError::Invalid(String::new()),
            NetError::NoTrace,
            NetError::Missing(Vec::new()),
            busy,
            NetError::Interrupted,
        ];
        let codes: Vec<u8> = [0].into_iter().chain(errors.iter().map(NetError::code)).collect();
        assert_eq!(listed, codes);
    }
}
