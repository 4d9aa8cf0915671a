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
    for folder in ["fig3", "fig4", ""] {
        for entry in fs::read_dir(one.path().join(folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.path().is_dir() {
                continue;
            }
            let other = two.path().join(folder).join(entry.file_name());
            let same = fs::read(entry.path()).expect("readable") == fs::read(other).expect("readable");
            assert!(same, "{:?} differs", entry.path());
        }
    }
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
}
