//! What stands between RC3 and its network: [`host`] looks at this host's sockets, [`path`] asks a listening peer
//! ([`listen`]) which marks survive the way, whether levels are treated differently, and how long packets may be.

use std::{fmt::Write as _, io};

use serde::Serialize;

use self::{host::HostReport, path::PathReport};
use crate::transfer::ticket::Fingerprint;

pub mod host;
mod lengths;
pub mod listen;
pub mod path;
pub mod probe;

/// What a doctor's ticket has in the place of a certificate's fingerprint: nobody proves an identity there.
pub fn fingerprint() -> Fingerprint {
    Fingerprint::of(b"rc3 doctor")
}

/// Everything found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// This host.
    pub host: HostReport,
    /// The path to a peer, if one was named.
    pub path: Option<PathReport>,
}

impl Report {
    /// Whether nothing is wrong that somebody could set right.
    pub fn is_healthy(&self) -> bool {
        self.host.advice.is_empty() && self.path.as_ref().is_none_or(PathReport::is_healthy)
    }

    /// For programs.
    ///
    /// # Errors
    /// None that is expected.
    pub fn json(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = self.host.text();
        if let Some(path) = &self.path {
            let _ = write!(text, "\n{}", path.text());
        }
        text
    }
}
