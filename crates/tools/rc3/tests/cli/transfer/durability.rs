//! The `--fsync` option, checked by the system calls.

use std::{fs, process::Command};

use super::harness::*;
use crate::skip::skipped;

#[test]
fn fsync_reaches_every_file_every_new_directory_and_every_parent() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = from.path().join("log");
    let top = from.path().join("top");
    fs::create_dir_all(top.join("deep/er")).unwrap();
    fs::create_dir(top.join("empty")).unwrap();
    fs::write(top.join("deep/er/file"), content(1000)).unwrap();
    let mut traced = Command::new("strace");
    traced.args(["-f", "-y", "-e", "trace=fsync,linkat", "-o"]).arg(&log).arg(env!("CARGO_BIN_EXE_rc3"));
    if !Command::new("strace").args(["-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success())
    {
        skipped("`strace` and the right to trace");
        return;
    }
    unknowing(&mut traced);
    let receiver = Receiver::run(traced, to.path(), &["--quiet", "--fsync"]);
    assert!(send(&receiver.ticket, &[&top], &[]).status.success());
    assert_eq!(receiver.finish().0, Some(0));

    let log = fs::read_to_string(log).unwrap();
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
