//! A real sshd on loopback.

use std::{fs, path::Path};

use super::harness::*;
use crate::{real_sshd::Sshd, skip::skipped};

#[test]
fn a_real_sshd_starts_the_far_end() {
    let Some(sshd) = Sshd::start() else {
        skipped(Sshd::NEEDS);
        return;
    };
    let (from, to, back) = (temporary(), temporary(), temporary());
    fs::write(from.path().join("f"), content(2_000_000)).unwrap();
    let ssh = sshd.client().join(" ");
    let there = |path: &Path| format!("127.0.0.1:{}", path.display());
    let copy = |flags: &[&str], from: String, to: String| {
        let mut command = rc3();
        command.arg("copy").args(["--rc3-path", env!("CARGO_BIN_EXE_rc3"), "--ssh", &ssh]);
        let output = command.args(flags).args([from, to]).output().expect("rc3 starts");
        assert!(output.status.success(), "{flags:?}: {}", said(&output));
    };
    let here = |path: &Path| path.display().to_string();
    copy(&[], here(&from.path().join("f")), there(to.path()));
    assert_eq!(tree(to.path()), tree(from.path()));
    copy(&["--via-ssh"], there(&to.path().join("f")), here(back.path()));
    assert_eq!(tree(back.path()), tree(from.path()));
}
