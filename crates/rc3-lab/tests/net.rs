//! `rc3-lab net` from end to end, in network namespaces. Without the rights to them the tests print that and end.
#![cfg(target_os = "linux")]

use std::{
    fs,
    num::NonZero,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rc3_lab::net::{
    namespace::Namespace,
    recipe::{Recipe, is_lacking},
    sample::MeasuredFlow,
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

/// One pair that UDP passes, one where only the far end can open the way, and one that needs ssh or the relay.
#[test]
fn files_pass_nats_or_go_through_ssh_or_the_relay() {
    let _alone = alone();
    if !able() {
        return;
    }
    let output = lab("check").output().unwrap();
    if !String::from_utf8_lossy(&output.stdout).contains("ok       nft\n") {
        eprintln!("skipped: needs nft (install nftables)");
        return;
    }
    if !Path::new(env!("CARGO_BIN_EXE_rc3-lab")).with_file_name("rc3").exists() {
        eprintln!("skipped: needs rc3 beside rc3-lab (cargo build -p rc3)");
        return;
    }
    for (name, otherwise) in [("nats", "ssh"), ("codes", "relay")] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = lab(&format!("run {name} --quick --runs 1 --rtt 40ms"));
        let Output { status, stderr, .. } = command.arg("--out").arg(folder.path()).output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        let report = fs::read_to_string(folder.path().join("report.md")).unwrap();
        let row = |near: &str| report.lines().find(|line| line.starts_with(&format!("| {near} |"))).unwrap();
        let ways = |near| ["direct", otherwise].map(|way| row(near).matches(way).count());
        assert_eq!(["none", "port-restricted", "symmetric"].map(ways), [[2, 0], [1, 0], [0, 1]], "{report}");
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

#[test]
fn recipes_for_operators_let_no_primary_packet_wait_behind_rlp() {
    let _alone = alone();
    if !able() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words =
        "run operators --rate 20mbit --rtt 60ms --sizes 300k --schemes rc3-per-level --runs 1 --lateness 1s";
    let Output { status, stderr, .. } = lab(words).arg("--out").arg(folder.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    // A machine without time for the WAN fails its checks.
    if !status.success() && stderr.contains("the WAN is not valid") {
        eprintln!("skipped: {stderr}");
        return;
    }
    assert!(status.success(), "{stderr}");
    stderr.lines().filter(|line| line.contains("left out")).for_each(|line| eprintln!("skipped: {line}"));
    let mut reader = csv::Reader::from_path(folder.path().join("flows.csv")).unwrap();
    let flows: Vec<MeasuredFlow> = reader.deserialize().collect::<Result<_, _>>().unwrap();
    let of = |name: &str| flows.iter().find(|flow| flow.cell == format!("operators-{name}"));
    for name in ["htb", "htb-nft", "prio"] {
        let Some(flow) = of(name) else { continue };
        assert!(flow.primary_packets > 0 && flow.rlp_packets > 0, "{name}: {flow:?}");
        // Between levels HTB is not strict: each has a packet per minute of its own.
        assert_eq!(flow.primary_behind, 0, "{name}: {flow:?}");
    }
    assert!(of("htb").is_some(), "the laboratory needs HTB");
    assert!(
        of("fifo").is_some_and(|flow| flow.primary_behind > 0),
        "one queue keeps nothing apart: {flows:?}"
    );
}

#[test]
fn recipes_are_accepted_as_they_are_printed() {
    let _alone = alone();
    if !able() {
        return;
    }
    for recipe in Recipe::all() {
        let [host, far] = ["recipe", "far"].map(|role| Namespace::new(role).unwrap());
        host.shell("ip link add eth0 numtxqueues 8 type veth peer name far").unwrap();
        host.shell(&format!("ip link set far netns {}; ip link set eth0 up", far.name())).unwrap();
        match recipe.run(&host, "eth0", NonZero::new(1_000_000_000).unwrap()) {
            Err(error) if is_lacking(&error) => eprintln!("skipped: {}: {error}", recipe.name),
            done => done.unwrap(),
        }
    }
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
