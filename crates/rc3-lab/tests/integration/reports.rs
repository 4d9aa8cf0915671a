//! The committed reports of the papers' experiments are of this code: their ends, repetitions and fingerprints are its.
//! The page names their commits and has their coverage.

use std::{fs, path::Path};

use rc3_lab::sim::{
    catalogue, coverage,
    experiment::{Experiment, ExperimentPlan},
    report::{Provenance, measured},
};
use rc3_sim::registry::Registry;

/// What stands behind a word in a report: `Commit 0123456789ab, fingerprint ...`.
fn behind<'a>(report: &'a str, word: &str) -> &'a str {
    let (_, rest) = report.split_once(word).unwrap_or_else(|| panic!("no {word}"));
    rest.split([',', '.']).next().unwrap_or_default().trim()
}

#[test]
fn reports_are_of_this_code_and_of_commits_that_the_page_names() {
    let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduction");
    let page = fs::read_to_string(reports.join("../REPRODUCTION.md")).unwrap();
    let mut stale = Vec::new();
    for (name, _) in catalogue::EXPERIMENTS {
        let report = fs::read_to_string(reports.join(name).join("report.md")).expect(name);
        let mut plan = ExperimentPlan::new("unused".into(), &Registry::default());
        plan.quick = report.contains(&format!("sim run {name} --quick"));
        let commit = behind(&report, "Commit ");
        assert!(page.contains(commit), "the page does not say that {name} is of {commit}");
        let experiment = Experiment::load(name, &plan).unwrap();
        let fingerprint = experiment.fingerprint().unwrap();
        let seed = experiment.scenario().spec().measure.seed;
        let says =
            measured(seed, experiment.runs(), &Provenance { commit: Some(commit.to_owned()), fingerprint });
        if !report.lines().any(|line| line == says) {
            stale.push(format!("{name}: {says}"));
        }
    }
    assert!(stale.is_empty(), "older than the code, run benches/reproduction.sh: {stale:#?}");
}

#[test]
fn pages_have_the_coverage_of_the_reports() {
    let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduction");
    let coverage = coverage::coverage(&reports).unwrap();
    let page = fs::read_to_string(reports.join("../REPRODUCTION.md")).unwrap();
    let summary = coverage.split("\n## ").next().unwrap_or_default().trim_start_matches("# Coverage\n");
    let linked = summary.replace("](", "](reproduction/").replace("reproduction/../", "");
    assert!(page.ends_with(&linked), "older than the reports, run benches/reproduction.sh --page");
    assert_eq!(fs::read_to_string(reports.join("coverage.md")).unwrap(), coverage);
    let score = summary.lines().find(|line| line.starts_with("Of ")).unwrap();
    let readme = fs::read_to_string(reports.join("../../README.md")).unwrap();
    assert!(readme.contains(score), "older than the reports, run benches/reproduction.sh --page");
}
