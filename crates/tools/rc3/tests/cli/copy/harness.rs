//! A script in place of ssh, which runs the remote command on this host.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

pub(crate) use crate::support::{rc3, said, tree, wait_until};

/// A fake ssh.
pub(crate) struct Fake {
    directory: TempDir,
}

impl Fake {
    /// One that runs some shell code first, with the host in `$host`, and then the command with `SSH_CONNECTION` set.
    pub(crate) fn with(code: &str) -> Self {
        Self::script(&format!(
            "host=$1; shift\nexport SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'\n{code}\nexec sh -c \"exec $*\""
        ))
    }

    /// One with only this shell code.
    pub(crate) fn script(code: &str) -> Self {
        let directory = temporary();
        let path = directory.path().join("ssh");
        fs::write(&path, format!("#!/bin/sh\n{code}\n")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("ssh")
    }

    /// `rc3 copy` through it.
    pub(crate) fn command(&self, flags: &[&str], places: &[&Path]) -> Command {
        let mut command = rc3();
        command.arg("copy").args(["--rc3-path", env!("CARGO_BIN_EXE_rc3")]).arg("--ssh").arg(self.path());
        command.args(flags).args(places).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub(crate) fn copy(&self, flags: &[&str], places: &[&Path]) -> Output {
        self.command(flags, places).output().expect("rc3 starts")
    }
}

/// The same path at the host `there`.
pub(crate) fn there(path: &Path) -> PathBuf {
    let mut place = OsString::from("there:");
    place.push(path);
    place.into()
}

pub(crate) fn temporary() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Bytes that no offset error leaves unchanged.
pub(crate) fn content(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    content
}

/// Sends a signal, `-INT` for example.
pub(crate) fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(status.expect("kill").success());
}
