//! The files of a user's tunnels.

use std::path::PathBuf;

use crate::{
    error::Result,
    identity::{
        file,
        peers::{AuthorizedPeers, KnownPeers},
    },
    transfer::identity::Identity,
};

/// Where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    directory: PathBuf,
    identity: Option<PathBuf>,
}

impl Files {
    /// Files in `directory`, with the identity in another file if one is named.
    pub fn new(directory: PathBuf, identity: Option<PathBuf>) -> Self {
        Self { directory, identity }
    }

    /// This user's identity, made on first use.
    ///
    /// # Errors
    /// See [`file::open`].
    pub fn identity(&self) -> Result<Identity> {
        let usual = || self.directory.join("identity");
        file::open(&self.identity.clone().unwrap_or_else(usual))
    }

    /// The peers that may connect.
    pub fn authorized(&self) -> AuthorizedPeers {
        AuthorizedPeers::new(self.directory.join("authorized_peers"))
    }

    /// The peers to connect to.
    pub fn known(&self) -> KnownPeers {
        KnownPeers::new(self.directory.join("known_peers"))
    }
}
