//! `rc3 check`: this host's sockets, and with another host the path between them.
//!
//! [`host`] checks the sockets. [`visit()`] measures a path, [`listen`] answers at its other end. First come the probes
//! ([`path`]): which marks survive, whether levels are treated differently, and how long packets may be. Then flows by
//! plain QUIC and by rc3 in turn: both sides agree on a [`plan`], and every flow of it goes on its own connection, in
//! order, each at most once. All connections begin with the ticket's secret ([`message`]).

use std::path::PathBuf;

use rc3_net::VarInt;
use rc3_picture::Format;

use self::{
    host::HostReport,
    progress::{CheckEvent, CheckProgress},
    report::CheckReport,
    visit::{VisitJob, visit},
};
use crate::{
    error::{Error, Result},
    transfer::{paths::printable_path, progress::Style},
};

pub mod advice;
mod answer;
pub mod comparison;
pub(crate) mod flow;
pub mod host;
pub mod listen;
pub mod message;
pub mod outcome;
mod pace;
pub mod path;
mod pattern;
pub mod plan;
pub mod probe;
pub mod progress;
pub mod report;
pub mod visit;
mod visitor;

/// Application protocol name on the connections.
pub const ALPN: &[u8] = b"rc3-check/1";

/// Close code: done.
const DONE: VarInt = VarInt::from_u32(0);

/// What to check, and how to show it.
#[derive(Debug, Clone)]
pub struct CheckJob {
    /// Whether to check this host.
    pub host: bool,
    /// The path to another host, if there is one.
    pub visit: Option<VisitJob>,
    /// Progress and results.
    pub style: Style,
    /// A picture of the flows: a file and its format.
    pub picture: Option<(PathBuf, Format)>,
}

/// Checks this host, then the path, and prints the results. Returns whether there is no problem that the user could fix.
///
/// # Errors
/// When the path cannot be checked, or an output cannot be written.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn check(job: &CheckJob, progress: &mut CheckProgress) -> Result<bool> {
    let mut report = CheckReport::default();
    if job.host {
        let looked = HostReport::look();
        let host =
            report.host.insert(looked.map_err(|error| Error::local("check this host's sockets", error))?);
        progress.event(&CheckEvent::Host(host));
    }
    if let Some(job) = &job.visit {
        visit(job, &mut report, progress).await?;
    }
    progress.finish(&report);
    if let (Some((path, format)), Some(comparison)) = (&job.picture, &report.comparison) {
        let failed = |error| Error::local(format!("write {}", printable_path(path)), error);
        std::fs::write(path, comparison.picture(*format).map_err(failed)?).map_err(failed)?;
    }
    Ok(report.is_healthy())
}
