//! `rc3-lab sim` as its users run it, with worlds of a few flows.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn lab(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rc3-lab"))
        .args(words)
        .env_remove("RUST_LOG")
        .output()
        .expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn experiments_are_listed_and_printed() {
    let list = lab(&["sim", "list"]);
    assert!(list.status.success());
    let list = text(&list.stdout);
    assert!(list.lines().any(|line| line.starts_with("fig8 ")), "{list}");
    let toml = text(&lab(&["sim", "list", "--toml", "fig8"]).stdout);
    assert!(toml.contains("workload.load = [0.1, 0.3, 0.5]"), "{toml}");
}

#[test]
fn errors_fit_a_line_and_a_hint() {
    for (words, code, says) in [
        (&["sim", "run", "fig99"][..], 2, "there is no experiment `fig99`"),
        (&["sim", "run", "fig3", "--set", "topology.rtt=40"][..], 2, "topology.rtt"),
        (&["sim", "run", "fig3", "--set", "topology.rt=40ms"][..], 2, "did you mean `rtt`?"),
        (&["sim", "run", "/none/x.toml"][..], 1, "/none/x.toml"),
        (&["sim", "run", "fig3", "--out", "/dev/null/x"][..], 1, "/dev/null/x"),
    ] {
        let output = lab(words);
        let printed = text(&output.stderr);
        let complaint = printed.lines().rev().nth(1).unwrap_or_default();
        assert_eq!(output.status.code(), Some(code), "{printed}");
        assert!(complaint.starts_with("rc3-lab: ") && complaint.contains(says), "{printed}");
        assert!(printed.lines().last().is_some_and(|line| line.starts_with("hint: ")), "{printed}");
    }
}

fn run(out: &Path, jobs: &str) -> String {
    let out = out.to_str().expect("text");
    let words = ["sim", "run", "fig3", "fig4", "--out", out, "--jobs", jobs, "--json", "--seed", "3"];
    let output = lab(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn one_seed_leaves_the_same_files_however_many_worlds_run_at_a_time() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let printed = run(one.path(), "1");
    run(two.path(), "2");
    let events: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    assert_eq!((&events[0]["event"], &events[0]["experiment"]), (&"begin".into(), &"fig3".into()));
    assert_eq!(events.last().map(|event| &event["event"]), Some(&"done".into()));
    assert_same(one.path(), two.path());
    let flows = text(&fs::read(one.path().join("fig3/flows.csv")).expect("readable"));
    assert_eq!(flows.lines().count(), 2, "{flows}");
    assert!(one.path().join("report.html").exists());
}

#[test]
fn a_trace_has_the_packets_of_its_links_and_the_steps_of_its_sender() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let output = lab(&["sim", "trace", "fig3", "--link", "core:0-1", "--link", "uplink:1", "--out", out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("flow 0 of 96360 bytes, host 0 to host 1"));

    let rows = fs::read_to_string(folder.path().join("timeline.csv")).expect("a time line");
    let mut rows = rows.lines().map(|row| row.split(',').collect::<Vec<_>>());
    assert_eq!(rows.next().expect("a head")[6], "level");
    let rows: Vec<_> = rows.collect();
    let of = |row: &Vec<&str>, column: usize| row[column].parse::<u64>().expect("a number");
    assert!(rows.is_sorted_by_key(|row| of(row, 3) + of(row, 4)), "bytes sent only grow");
    let last = rows.last().expect("rows");
    assert!(of(last, 3) + of(last, 4) >= 96_360, "both loops together sent the flow");
    assert!(rows.iter().any(|row| row[6] == "2"), "some of RLP went at level 2");

    // The data goes one way over the core link, what acknowledges it leaves by the receiver's uplink.
    let bytes = |name: &str| fs::read(folder.path().join(name)).expect("a capture").len();
    assert!(bytes("core-0-1.pcap") > 96_360);
    assert!((24..96_360).contains(&bytes("uplink-1.pcap")));
}

#[test]
fn a_trace_follows_the_measured_flow_beside_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let output =
        lab(&["sim", "trace", "fifo-cubic", "--set", "sweep.workload.size=[\"100k\"]", "--out", out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("of 100000 bytes, host 0 to host 1"), "{}", text(&output.stdout));
    let rows = fs::read_to_string(folder.path().join("timeline.csv")).expect("a time line");
    assert!(rows.lines().count() > 20, "{rows}");
}

#[test]
fn errors_of_traces_fit_a_line_and_a_hint() {
    for (words, says) in [
        (["--world", "2"], "there is no world 2, the scenario makes 1"),
        (["--flow", "2"], "there is no flow 2"),
        (["--link", "core:0-7"], "there is no link core:0-7"),
    ] {
        let output = lab(&[&["sim", "trace", "fig3", "--out", "/dev/null/x"][..], &words].concat());
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains(says) && printed.contains("hint: "), "{printed}");
    }
    let output = lab(&["sim", "trace", "fig3", "--out", "/dev/null/x"]);
    let printed = text(&output.stderr);
    assert!(output.status.code() == Some(1) && printed.starts_with("rc3-lab: /dev/null/x: "), "{printed}");
}

fn path(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// The files below a folder with their contents, by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        if entry.path().is_dir() {
            let inner = self::files(&entry.path());
            files.extend(inner.into_iter().map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        } else {
            files.push((name, fs::read(entry.path()).expect("readable")));
        }
    }
    files.sort();
    files
}

fn assert_same(one: &Path, other: &Path) {
    let results = |folder| files(folder).into_iter().filter(|(name, _)| !name.starts_with("shards/"));
    let (one, other): (Vec<_>, Vec<_>) = (results(one).collect(), results(other).collect());
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for ((name, one), (_, other)) in one.iter().zip(&other) {
        assert!(one == other, "{name} differs");
    }
}

const EXPERIMENTS: [&str; 6] = ["fig3", "fig4", "--seed", "3", "--set", "measure.repetitions=2"];

#[test]
fn shards_merge_to_the_bytes_of_one_run() {
    let [whole, first, second, merged] = [(); 4].map(|()| tempfile::tempdir().expect("a folder"));
    let run = |more: &[&str]| {
        let output = lab(&[&["sim", "run"], &EXPERIMENTS[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    run(&["--out", path(whole.path())]);
    let printed = run(&["--out", path(first.path()), "--shard", "1/3"]);
    assert!(printed.contains("worlds are below") && printed.contains("rc3-lab sim merge"), "{printed}");
    run(&["--out", path(second.path()), "--shard", "2/3"]);
    let merge = |folders: &[&Path]| {
        let folders: Vec<&str> = folders.iter().map(|folder| path(folder)).collect();
        lab(&[&["sim", "merge"], &folders[..], &["--out", path(merged.path())]].concat())
    };
    let incomplete = merge(&[first.path(), second.path()]);
    let printed = text(&incomplete.stderr);
    assert_eq!(incomplete.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("is missing, of shard 3/3") && printed.contains("hint: run that shard"),
        "{printed}"
    );

    run(&["--out", path(second.path()), "--shard", "3/3"]);
    let complete = merge(&[first.path(), second.path()]);
    assert!(complete.status.success(), "{}", text(&complete.stderr));
    assert_same(whole.path(), merged.path());

    // Its worlds are there already.
    let again = run(&["--out", path(first.path()), "--shard", "1/3", "--json"]);
    let events = again.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    assert_eq!(events.map(|event| event["event"].clone()).collect::<Vec<_>>(), ["begin", "done"]);
    let other = lab(&["sim", "run", "fig3", "--out", path(first.path()), "--shard", "1/3"]);
    let printed = text(&other.stderr);
    assert!(printed.contains("is of another version, command, input or number of shards"), "{printed}");
}

#[test]
#[cfg(unix)]
fn the_batch_example_leaves_the_bytes_of_one_run() {
    let [whole, spread] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let parallel = Command::new("parallel").arg("--version").output().is_ok();
    if !parallel {
        println!(
            "GNU parallel is not installed: xargs -P runs the shards of examples/batch/parallel.sh instead"
        );
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/batch/parallel.sh");
    let output = Command::new("sh")
        .arg(script)
        .args(["3", path(spread.path())])
        .args(EXPERIMENTS)
        .env("LAB", env!("CARGO_BIN_EXE_rc3-lab"))
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = lab(&[&["sim", "run"], &EXPERIMENTS[..], &["--out", path(whole.path())]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_same(whole.path(), spread.path());
}

#[test]
fn the_page_of_keys_is_what_the_command_prints() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduction/keys.md");
    let written = fs::read_to_string(page).expect("docs/reproduction/keys.md");
    let printed = text(&lab(&["sim", "keys"]).stdout);
    assert!(written == printed, "write it anew: rc3-lab sim keys > docs/reproduction/keys.md");
    let help = text(&lab(&["sim", "run", "--help"]).stdout);
    assert!(help.contains("docs/SCENARIOS.md"), "{help}");
}

#[test]
fn flows_of_a_file_are_replayed() {
    let out = tempfile::tempdir().expect("a folder");
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/replay/replay.toml");
    let output = lab(&["sim", "run", path(&scenario), "--out", path(out.path())]);
    let progress = text(&output.stderr);
    assert!(output.status.success(), "{progress}");
    assert!(progress.contains("2 worlds, about 10 flows"), "{progress}");
    let printed = text(&output.stdout);
    assert!(printed.contains("TCP: busiest core link core:"), "{printed}");
    let flows = fs::read_to_string(out.path().join("replay/flows.csv")).expect("flows");
    let starts = flows.lines().skip(1).map(|row| row.split(',').nth(5).expect("a column").to_owned());
    let expected = ["0.000000000", "0.000081000", "0.020000000", "0.300000000", "1.500000000"];
    assert_eq!(starts.collect::<Vec<_>>(), [expected, expected].concat());
}

#[test]
fn runs_that_cannot_succeed_stop_with_the_reason() {
    let out = tempfile::tempdir().expect("a folder");
    let copy = out.path().join("mine.toml");
    fs::write(&copy, lab(&["sim", "list", "--toml", "fig3"]).stdout).expect("writable");
    let fails = |words: &[&str], code, expected: &str| {
        let output = lab(&[words, &["--out", path(out.path())]].concat());
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{printed}");
        assert!(printed.contains(expected) && printed.contains("hint: "), "{printed}");
    };
    fails(
        &["sim", "run", "fig3", "--set", "measure.until=1ms"],
        1,
        "no measured flow had ended when the world did",
    );
    fails(&["sim", "run", "fig3", "--set", "measure.warm-up=1"], 2, "but the workload has only 1");
    fails(&["sim", "run", "pacing", "--set", "topology.uplink=10Mbit"], 2, "times its 10 Mbit/s");
    fails(&["sim", "run", "fig3", "--set", "measure.max-in-flight=0"], 2, "no flow could start");
    fails(&["sim", "merge", "/none"], 1, "/none/shards/job.json");
    fails(&["sim", "run", "fig3", path(&copy)], 2, "mine.toml both have the name `fig3`");
}
