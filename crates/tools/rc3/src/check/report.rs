//! All results of a check.

use super::{comparison::Comparison, host::HostReport, path::PathReport};

/// All results.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// This host.
    pub host: Option<HostReport>,
    /// What probes found out about the path to a listener.
    pub path: Option<PathReport>,
    /// The flows on that path.
    pub comparison: Option<Comparison>,
}

impl CheckReport {
    /// Whether there is no problem that the user could fix.
    pub fn is_healthy(&self) -> bool {
        self.todo().is_empty()
    }

    fn todo(&self) -> Vec<String> {
        let host = self.host.iter().flat_map(HostReport::todo);
        host.chain(self.path.iter().flat_map(PathReport::todo)).collect()
    }

    /// The last word: what an operator should do.
    fn verdict(&self) -> Option<String> {
        let checked = match (&self.host, &self.path) {
            (Some(_), Some(_)) => "on this host and this path",
            (Some(_), None) => "on this host",
            (None, Some(_)) => "on this path",
            (None, None) => return None,
        };
        let todo = self.todo();
        if todo.is_empty() {
            return Some(format!("Verdict: nothing to do {checked}\n"));
        }
        let lines = todo.iter().map(|line| format!("  - {line}\n"));
        Some(format!("Verdict: to do for more speed {checked}\n{}", lines.collect::<String>()))
    }

    /// The results as text.
    pub fn text(&self) -> String {
        let host = self.host.as_ref().map(HostReport::text);
        let path = self.path.as_ref().map(PathReport::text);
        let comparison = self.comparison.as_ref().map(Comparison::text);
        [host, path, comparison, self.verdict()].into_iter().flatten().collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{comparison::tests::comparison, host, path},
        *,
    };

    fn verdict(host: Option<HostReport>, path: Option<PathReport>) -> (bool, String) {
        let report = CheckReport { host, path, comparison: Some(comparison()) };
        let (text, is_healthy) = (report.text(), report.is_healthy());
        (is_healthy, text.split_once("Verdict: ").map_or_else(String::new, |(_, verdict)| verdict.to_owned()))
    }

    #[test]
    fn the_last_words_are_what_to_do() {
        let (host, path) = (host::tests::healthy, path::tests::healthy);
        assert_eq!(verdict(None, None), (true, String::new()));
        assert_eq!(verdict(Some(host()), None), (true, "nothing to do on this host\n".to_owned()));
        assert_eq!(
            verdict(Some(host()), Some(path())),
            (true, "nothing to do on this host and this path\n".to_owned())
        );
        let why = "the receive buffer has only 5 of 10 requested bytes: bursts will be lost".to_owned();
        let capped = HostReport {
            advice: vec![host::Advice { why, commands: vec!["sysctl -w x=10".to_owned()] }],
            ..host()
        };
        let bleached = PathReport { marks_back: [(1, 0)].into(), mtu: None, ..path() };
        let (is_healthy, text) = verdict(Some(capped), Some(bleached));
        assert!(!is_healthy);
        for todo in [
            "  - run as root `sysctl -w x=10`: the receive",
            "  - let packets of 1280",
            "keep DSCP 1 from 192.0.2.1: it arrives as 0",
        ] {
            assert!(text.contains(todo), "{todo} is missing in\n{text}");
        }
    }
}
