//! What stands between RC3 and its network: [`host`] looks at this host's sockets, [`path`] asks a listening peer
//! ([`listen`]) which marks survive the way, whether levels are treated differently, and how long packets may be, and
//! [`flow`] sends data there and back by rc3.

use std::{fmt::Write as _, io};

use rc3_net::marks::MarkChoice;
use serde::Serialize;

use self::{flow::Flows, host::HostReport, path::PathReport};
use crate::transfer::ticket::Fingerprint;

pub mod advice;
pub mod flow;
pub mod host;
mod lengths;
pub mod listen;
pub mod path;
pub mod probe;
pub mod progress;
pub mod visit;

/// How far a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A datagram for each DSCP.
    Marks,
    /// Bursts with these marks.
    Bursts(MarkChoice),
    /// Packets of several lengths.
    Lengths,
    /// So many bytes of the flow have arrived there.
    There(u64),
    /// So many of the one back.
    Back(u64),
}

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
    /// What flows found of that path; none too where the peer takes no part.
    pub flow: Option<Flows>,
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
            match &self.flow {
                Some(flow) => text += &flow.text(),
                None => text += "  ! no flow: the listener is of another version, or did not let it in\n",
            }
        }
        text
    }
}
