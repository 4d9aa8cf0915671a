//! The `--fsync` option, checked by the system calls.

use std::{fs, path::Path, process::Command};

use super::harness::*;
use crate::skip::skipped;

/// The receiver's system calls, while it receives this with `--fsync`. `None` without the right to trace.
fn traced(top: &Path, to: &Path) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut traced = Command::new("strace");
    traced.args(["-f", "-y", "-e", "trace=fsync,linkat,symlinkat", "-o"]);
    traced.arg(&log).arg(env!("CARGO_BIN_EXE_rc3"));
    if !Command::new("strace").args(["-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success())
    {
        skipped("`strace` and the right to trace");
        return None;
    }
    unknowing(&mut traced);
    let receiver = Receiver::run(traced, to, &["--quiet", "--fsync", "--hard-links"]);
    assert!(send(&receiver.ticket, &[top], &["--links", "--hard-links"]).status.success());
    assert_eq!(receiver.finish().0, Some(0));
    Some(fs::read_to_string(log).unwrap())
}

#[test]
fn fsync_reaches_new_links_of_directories_that_existed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("file"), b"1").unwrap();
    if traced(&top, to.path()).is_none() {
        return;
    }
    type Make = fn(&Path) -> std::io::Result<()>;
    let hard: Make = |top| fs::hard_link(top.join("file"), top.join("second"));
    let symbolic: Make = |top| std::os::unix::fs::symlink("file", top.join("link"));
    for (call, make) in [("linkat(", hard), ("symlinkat(", symbolic)] {
        make(&top).unwrap();
        let log = traced(&top, to.path()).unwrap();
        let mut calls = log.lines().skip_while(|line| !line.contains(call));
        let synced = format!("<{}/top>)", to.path().display());
        assert!(calls.any(|line| line.contains("fsync(") && line.contains(&synced)), "{log}");
    }
}

#[test]
fn fsync_reaches_every_file_every_new_directory_and_every_parent() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir_all(top.join("deep/er")).unwrap();
    fs::create_dir(top.join("empty")).unwrap();
    fs::write(top.join("deep/er/file"), content(1000)).unwrap();
    let Some(log) = traced(&top, to.path()) else { return };
    let root = to.path().to_str().unwrap();
    let position = |what: &str| log.lines().position(|line| line.contains(what));
    for synced in ["", "/top", "/top/deep", "/top/deep/er"] {
        assert!(position(&format!("<{root}{synced}>)")).is_some(), "{synced:?} is not synced:\n{log}");
    }
    let named = position("linkat(").expect("it gets its name");
    let content = log.lines().position(|line| line.contains("fsync(") && line.contains(".file."));
    assert!(content.expect("its content is synced") < named, "{log}");
    let directory = log.lines().skip(named).any(|line| line.contains(&format!("<{root}/top/deep/er>)")));
    assert!(directory, "its name is not synced:\n{log}");
}
