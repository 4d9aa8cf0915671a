//! All results of a check.

use super::{comparison::Comparison, host::HostReport, path::PathReport};

/// All results.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// This host.
    pub host: Option<HostReport>,
    /// What probes found out about the path to a listener.
    pub path: Option<PathReport>,
    /// The flows on that path.
    pub comparison: Option<Comparison>,
}

impl Report {
    /// Whether there is no problem that the user could fix.
    pub fn is_healthy(&self) -> bool {
        self.host.as_ref().is_none_or(|host| host.advice.is_empty())
            && self.path.as_ref().is_none_or(PathReport::is_healthy)
    }

    /// The results as text.
    pub fn text(&self) -> String {
        let host = self.host.as_ref().map(HostReport::text);
        let path = self.path.as_ref().map(PathReport::text);
        let comparison = self.comparison.as_ref().map(Comparison::text);
        [host, path, comparison].into_iter().flatten().collect::<Vec<_>>().join("\n")
    }
}
