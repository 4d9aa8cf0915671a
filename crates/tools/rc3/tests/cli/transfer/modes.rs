//! Permission bits, from the first byte on.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
};

use super::harness::*;

pub(super) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

pub(super) fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

/// Runs under this umask.
pub(super) fn receiver(dir: &Path, umask: &str, flags: &[&str]) -> Receiver {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_rc3")]);
    unknowing(&mut command).stdin(Stdio::null()).process_group(0);
    Receiver::run(command, dir, flags)
}

#[test]
fn modes_never_widen_and_the_umask_applies() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir_all(top.join("private")).unwrap();
    fs::create_dir_all(top.join("read only")).unwrap();
    let files = [
        ("key", 0o600),
        ("private/tool", 0o700),
        ("shared", 0o666),
        ("odd", 0o4755),
        ("sealed", 0o400),
        ("read only/f", 0o440),
    ];
    for (name, mode) in files {
        fs::write(top.join(name), content(1000)).unwrap();
        set_mode(&top.join(name), mode);
    }
    set_mode(&top.join("private"), 0o1700);
    set_mode(&top.join("read only"), 0o555);
    set_mode(&top, 0o2777);
    let receiver = receiver(to.path(), "027", &[]);
    let output = send(&receiver.ticket, &[&top], &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    let arrived = to.path().join("top");
    for (name, expected) in [
        ("", 0o750),
        ("private", 0o700),
        ("read only", 0o550),
        ("key", 0o600),
        ("private/tool", 0o700),
        ("shared", 0o640),
        ("odd", 0o750),
        ("sealed", 0o400),
        ("read only/f", 0o440),
    ] {
        let found = mode(&arrived.join(name));
        assert_eq!(found, expected, "{name:?} is {found:o}, not {expected:o}");
    }
}

#[test]
fn private_files_are_private_while_they_arrive() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    set_mode(&top, 0o700);
    fs::write(top.join("secret"), content(30_000_000)).unwrap();
    set_mode(&top.join("secret"), 0o600);
    let receiver = receiver(to.path(), "000", &[]);
    let mut sender = slow_sender(&receiver, &top, to.path());
    wait_for_record(&to.path().join("top"));
    assert_eq!(mode(&to.path().join("top")), 0o700);
    for name in names(&to.path().join("top")) {
        let found = mode(&to.path().join("top").join(&name));
        assert_eq!(found, 0o600, "{name} is {found:o}");
    }
    sender.kill().unwrap();
    sender.wait().unwrap();
}

#[test]
fn directories_take_setgid_from_where_they_are_and_not_from_the_sender() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("f"), b"f").unwrap();
    set_mode(&top, 0o755);
    set_mode(&top.join("f"), 0o6755);
    set_mode(to.path(), 0o2755);
    let receiver = receiver(to.path(), "022", &[]);
    assert!(send(&receiver.ticket, &[&top], &[]).status.success());
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(mode(&to.path().join("top")), 0o2755);
    assert_eq!(mode(&to.path().join("top/f")), 0o755);
}
