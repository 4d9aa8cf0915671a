//! Why a forwarder cannot run.

use std::{fmt::Display, io};

use thiserror::Error;

use super::config::ConfigError;

/// See the variants.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something that the configuration names cannot be opened or used.
    #[error("{what}: {source}")]
    Unusable {
        /// A file, device, namespace, user or address.
        what: String,
        /// The cause.
        source: io::Error,
        /// What the user can do.
        hint: &'static str,
    },
    /// Any other system error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ForwardError {
    /// An error about something that the configuration names, from its cause.
    pub(crate) fn unusable(what: impl Display, hint: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Unusable { what: what.to_string(), source, hint }
    }

    /// What the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Config(_) => "docs/FORWARDER.md lists the keys",
            Self::Unusable { hint, .. } => hint,
            Self::Io(_) => "check the system's limits on memory and open files",
        }
    }
}
