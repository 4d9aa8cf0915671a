//! Why a forwarder cannot run.

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
        /// The cause.
        source: io::Error,
    },
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device cannot be opened.
    #[error("device `{name}`: {source}")]
    Device {
        /// Its name.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// A network namespace cannot be entered.
    #[error("network namespace `{name}`: {source}")]
    Namespace {
        /// Its name.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// Privileges cannot be dropped as configured.
    #[error("user or group: {0}")]
    Privileges(io::Error),
    /// Metrics cannot be served.
    #[error("metrics: {0}")]
    Metrics(io::Error),
    /// Any other system error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ForwardError {
    /// What the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => "pass the right file with --config FILE",
            Self::Config(_) => "docs/FORWARDER.md lists the keys",
            Self::Device { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "devices need CAP_NET_ADMIN: start it as root, it drops its privileges afterwards"
            }
            Self::Device { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                "another program uses this device, or it is not a TUN device"
            }
            Self::Device { .. } => "check the name, the addresses and that the kernel supports TUN",
            Self::Namespace { .. } => "create it with ip netns add, and start the forwarder as root",
            Self::Privileges(_) => "set forward.user and forward.group, and start it as root",
            Self::Metrics(_) => "check forward.prometheus",
            Self::Io(_) => "check the system's limits on memory and open files",
        }
    }
}
