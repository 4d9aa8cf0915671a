//! `rc3-lab net` from end to end, in network namespaces. Without the rights to them the tests print that and end.
#![cfg(target_os = "linux")]

use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Laboratories measure time, so that one runs at once.
static LABORATORY: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A test that failed has left nothing that another one needs.
    LABORATORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine is too busy, which is no fault of the laboratory.
const BUSY: i32 = 4;

fn lab(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rc3-lab"));
    command.arg("net").args(words.split_whitespace());
    command
}

/// Whether this host can run the laboratory; if not, says what is missing.
fn able() -> bool {
    let output = lab("check").output().unwrap();
    if !output.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success()
}

/// Names of the namespaces of a laboratory.
fn namespaces(id: u32) -> Vec<String> {
    let output = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let prefix = format!("rc3-net-{id}-");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.starts_with(&prefix)).map(str::to_owned).collect()
}

/// A run with one small flow of two schemes, over a slow and short path.
fn tiny(out: &Path) -> Command {
    let mut command =
        lab("run idle --rate 20mbit --rtt 10ms --sizes 20k --schemes rc3,tcp --runs 1 --lateness 100ms");
    command.arg("--out").arg(out).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_tiny_run_measures_and_leaves_nothing_behind() {
    let _alone = alone();
    if !able() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let child = tiny(folder.path()).spawn().unwrap();
    let id = child.id();
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!(namespaces(id), Vec::<String>::new());
    if status.code() == Some(BUSY) {
        eprintln!("skipped: {}", String::from_utf8_lossy(&stderr).trim());
        return;
    }
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let rows = fs::read_to_string(folder.path().join("flows.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(rows.as_bytes());
    let head = reader.headers().unwrap().clone();
    let column = |name| head.iter().position(|column| column == name).unwrap();
    let (scheme, fct, ideal) = (column("scheme"), column("fct_s"), column("ideal_s"));
    let mut schemes = Vec::new();
    for row in reader.records() {
        let row = row.unwrap();
        schemes.push(row[scheme].to_owned());
        let ratio = row[fct].parse::<f64>().unwrap() / row[ideal].parse::<f64>().unwrap();
        assert!(ratio > 0.98, "{} of the ideal is faster than the link: {rows}", ratio);
    }
    schemes.sort();
    assert_eq!(schemes, ["rc3", "tcp"]);
    for file in ["report.md", "report.html", "checks.csv"] {
        assert!(folder.path().join(file).exists(), "{file} is missing");
    }
}

#[test]
fn loopback_needs_no_namespaces_and_names_every_scheme() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut command = lab(
        "run bulk-loopback exchanges-loopback --sizes 100k --exchanges 8 --schemes rc3,quinn,tcp --runs 1",
    );
    let Output { status, stderr, .. } = command.arg("--out").arg(folder.path()).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let report = fs::read_to_string(folder.path().join("report.md")).unwrap();
    for part in [
        "100 kB over loopback",
        "on one connection",
        "each on a new connection",
        "| rc3 |",
        "| quinn |",
        "| tcp |",
    ] {
        assert!(report.contains(part), "{part} is missing in {report}");
    }
}

#[test]
fn flows_of_kickass_are_in_a_report() {
    let _alone = alone();
    if !able() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let child =
        lab("run kickass-shared --time 2s").arg("--out").arg(folder.path()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    let id = child.id();
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!(namespaces(id), Vec::<String>::new());
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let report = fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(report.contains("| TCP, others Kick-Ass |"), "{report}");
}

/// Waits until a laboratory has its namespaces.
fn begun(child: &mut Child) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until && child.try_wait().unwrap().is_none() {
        if namespaces(child.id()).len() == 4 {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn an_interrupted_run_removes_its_namespaces_and_a_killed_one_is_cleaned_up_after() {
    let _alone = alone();
    if !able() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = tiny(folder.path()).spawn().unwrap();
    assert!(begun(&mut child));
    let id = child.id();
    kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(namespaces(id), Vec::<String>::new());

    let mut child = tiny(folder.path()).spawn().unwrap();
    assert!(begun(&mut child));
    let id = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!namespaces(id).is_empty());
    let output = lab("check").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(namespaces(id), Vec::<String>::new(), "{text}");
}
