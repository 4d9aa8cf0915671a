//! Why a forwarder does not run.

use std::{io, path::PathBuf};

use thiserror::Error;

use super::config::ConfigError;

/// See the variants.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// The configuration file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device cannot be opened.
    #[error("device `{name}`: {source}")]
    Device {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A network namespace cannot be entered.
    #[error("network namespace `{name}`: {source}")]
    Namespace {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Privileges cannot be dropped as configured.
    #[error("user or group: {0}")]
    Privileges(io::Error),
    /// Metrics cannot be served.
    #[error("metrics: {0}")]
    Metrics(io::Error),
    /// Anything else of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ForwardError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => "name the file by --config FILE",
            Self::Config(_) => "the keys are in docs/FORWARDER.md",
            Self::Device { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "devices need CAP_NET_ADMIN: start it as root, it drops its rights afterwards"
            }
            Self::Device { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                "another program has this device, or it is none of TUN"
            }
            Self::Device { .. } => "check the name, the addresses and that the kernel has TUN",
            Self::Namespace { .. } => "make it by ip netns add, and start the forwarder as root",
            Self::Privileges(_) => "set forward.user and forward.group, and start it as root",
            Self::Metrics(_) => "check forward.prometheus",
            Self::Io(_) => "check the limits of the system",
        }
    }
}
