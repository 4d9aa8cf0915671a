//! `rc3 doctor`: [`host`] checks this host's sockets, [`path`] asks a listening peer ([`listen`]) which marks survive,
//! whether levels are treated differently and how long packets may be, and [`flow`] sends data both ways by rc3.

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

/// Progress of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A datagram for each DSCP.
    Marks,
    /// Bursts with these marks.
    Bursts(MarkChoice),
    /// Packets of several lengths.
    Lengths,
    /// Bytes of the first flow that have arrived.
    There(u64),
    /// Bytes of the flow back.
    Back(u64),
}

/// Takes the place of the certificate's fingerprint in a doctor's ticket: probes need no certificate.
pub fn fingerprint() -> Fingerprint {
    Fingerprint::of(b"rc3 doctor")
}

/// All results.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// This host.
    pub host: HostReport,
    /// The path to a peer, if a ticket was given.
    pub path: Option<PathReport>,
    /// What the flows measured of that path; `None` also if the peer takes no part.
    pub flow: Option<Flows>,
}

impl Report {
    /// Whether there is no problem that the user could fix.
    pub fn is_healthy(&self) -> bool {
        self.host.advice.is_empty() && self.path.as_ref().is_none_or(PathReport::is_healthy)
    }

    /// The results as JSON.
    ///
    /// # Errors
    /// Not expected.
    pub fn json(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// The results as text.
    pub fn text(&self) -> String {
        let mut text = self.host.text();
        if let Some(path) = &self.path {
            let _ = write!(text, "\n{}", path.text());
            match &self.flow {
                Some(flow) => text += &flow.text(),
                None => text += "  ! no flow: the listener has another version, or refused it\n",
            }
        }
        text
    }
}
