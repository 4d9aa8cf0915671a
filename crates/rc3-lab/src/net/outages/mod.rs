//! What `rc3 send`, `copy` and `tunnel` do when the path goes away, a side sleeps, moves or is started again.

mod fault;
mod run;

use std::{fs, time::Duration};

use self::{
    fault::{FAULTS, OutageFault},
    run::{OutageOutcome, OutageRun, OutageSubject},
};
use super::{error::NetError, parallel::in_parallel, programs::rc3, run::Lab};
use crate::{
    document::{Document, Table},
    statistics::MedianInterval,
};

/// So many runs at once: they mostly wait.
const PARALLEL: usize = 20;
/// Content of a transfer: twelve seconds at 10 Mbit/s.
const BYTES: u64 = 15_000_000;
/// How long a transfer runs before something happens.
const BEFORE: Duration = Duration::from_secs(3);

/// Measures each command with each fault.
pub fn measure(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let path = lab.options.path_of(10, 80);
    let (runs, program) = (Vec::from_iter(0..lab.options.runs()), rc3()?);
    let content = tempfile::NamedTempFile::new()?;
    let mut bytes = vec![0; BYTES as usize];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    fs::write(content.path(), &bytes)?;
    let mut table = Table::new([
        "command",
        "fault",
        "#runs",
        "#whole",
        "#bytes sent over content",
        "#first packet after the fault, ms: median",
        "#largest",
        "otherwise",
    ]);
    for subject in [OutageSubject::Send, OutageSubject::Pipe, OutageSubject::Copy, OutageSubject::Tunnel] {
        for fault in FAULTS {
            let what = format!("{subject}: {fault}");
            let run = |_| OutageRun::new(subject, fault, &path, &program, content.path())?.finish();
            if let Some(outcomes) = lab.attempt(&what, || in_parallel(PARALLEL, &runs, run)) {
                table.row(subject.to_string(), cells(fault, &outcomes));
            }
        }
    }
    let text = format!(
        "{path}, {} MB, the fault after {} s. The first packet is one of at least 1000 bytes at the receiver's card.",
        BYTES / 1_000_000,
        BEFORE.as_secs()
    );
    Ok(vec![Document::new("Outages").text(text).table(table)])
}

fn cells(fault: OutageFault, outcomes: &[OutageOutcome]) -> [String; 7] {
    let whole: Vec<&OutageOutcome> = outcomes.iter().filter(|outcome| outcome.failure.is_none()).collect();
    let mean = whole.iter().map(|outcome| outcome.sent).sum::<f64>() / whole.len() as f64;
    let resumed: Vec<f64> = whole.iter().filter_map(|outcome| outcome.resumed).collect();
    let estimate = MedianInterval::of(&resumed).filter(|_| fault != OutageFault::Nothing);
    let millis = |seconds: f64| format!("{:.0}", seconds * 1e3);
    let largest = resumed.iter().copied().fold(0.0, f64::max);
    [
        fault.to_string(),
        outcomes.len().to_string(),
        whole.len().to_string(),
        if whole.is_empty() { String::new() } else { format!("{mean:.3}") },
        estimate.map_or_else(String::new, |estimate| millis(estimate.median)),
        estimate.map_or_else(String::new, |_| millis(largest)),
        outcomes.iter().find_map(|outcome| outcome.failure.clone()).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{
        run::{failure_of, reason},
        *,
    };
    use crate::net::process::Process;

    #[test]
    fn a_row_counts_what_arrived_whole_and_says_why_the_rest_did_not() {
        let outcome = |sent, resumed| OutageOutcome { failure: None, sent, resumed };
        let failed = OutageOutcome { failure: Some("ended".to_owned()), ..outcome(0.5, Some(9.0)) };
        let outcomes = [outcome(1.1, Some(0.1)), outcome(1.3, Some(0.3)), failed];
        let expected = ["new address", "3", "2", "1.200", "200", "300", "ended"];
        assert_eq!(cells(OutageFault::Moved, &outcomes), expected);
        assert_eq!(cells(OutageFault::Nothing, &outcomes[..2])[4..], ["", "", ""]);
        let complaint = "`rc3 copy`, here: 7 %, 1.19 MB; rc3: lost the connection: ssh ended; hint: check it";
        assert_eq!(reason(complaint), "lost the connection: ssh ended");
        assert_eq!(reason("upload: reset"), "upload: reset");
    }

    #[test]
    fn a_far_side_that_fails_is_the_failure_of_its_run() {
        let side = |script| Process::start("rc3", Command::new("sh").args(["-c", script])).unwrap();
        let far = side("echo 'rc3: no space left; hint: free some' >&2; exit 1");
        let failure = failure_of([side("exit 0"), far]).unwrap();
        assert_eq!(failure.as_deref(), Some("no space left"));
        assert_eq!(failure_of([side("exit 0")]).unwrap(), None);
    }

    #[test]
    fn all_runs_are_made() {
        let run = |()| Ok(OutageOutcome { failure: None, sent: 1.0, resumed: None });
        let runs = in_parallel(PARALLEL, &[(); 45], run).unwrap();
        assert_eq!(runs.len(), 45);
    }
}
