//! `rc3 sim` as its users run it, with worlds of a few flows.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn rc3(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rc3")).args(words).env_remove("RUST_LOG").output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn experiments_are_listed_and_printed() {
    let list = rc3(&["sim", "list"]);
    assert!(list.status.success());
    let list = text(&list.stdout);
    assert!(list.lines().any(|line| line.starts_with("fig8 ")), "{list}");
    let toml = text(&rc3(&["sim", "list", "--toml", "fig8"]).stdout);
    assert!(toml.contains("workload.load = [0.1, 0.3, 0.5]"), "{toml}");
}

#[test]
fn what_cannot_be_run_is_said_in_a_line_and_a_hint() {
    for (words, code, says) in [
        (&["sim", "run", "fig99"][..], 2, "there is no experiment `fig99`"),
        (&["sim", "run", "fig3", "--set", "topology.rtt=40"][..], 2, "topology.rtt"),
        (&["sim", "run", "fig3", "--set", "topology.rt=40ms"][..], 2, "did you mean `rtt`?"),
        (&["sim", "run", "/none/x.toml"][..], 1, "/none/x.toml"),
        (&["sim", "run", "fig3", "--out", "/dev/null/x"][..], 1, "/dev/null/x"),
    ] {
        let output = rc3(words);
        let said = text(&output.stderr);
        let complaint = said.lines().rev().nth(1).unwrap_or_default();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(complaint.starts_with("rc3: ") && complaint.contains(says), "{said}");
        assert!(said.lines().last().is_some_and(|line| line.starts_with("hint: ")), "{said}");
    }
}

fn run(out: &Path, jobs: &str) -> String {
    let out = out.to_str().expect("text");
    let words = ["sim", "run", "fig3", "fig4", "--out", out, "--jobs", jobs, "--json", "--seed", "3"];
    let output = rc3(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn one_seed_leaves_the_same_files_however_many_worlds_run_at_a_time() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let told = run(one.path(), "1");
    run(two.path(), "2");
    let events: Vec<Value> =
        told.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
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
