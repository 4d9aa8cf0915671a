//! What tests make: files, and environments of Python with the programs of others.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The directory for it.
pub(crate) const MADE: &str = env!("CARGO_TARGET_TMPDIR");

/// The programs of an environment with this package, which is made if it is not there.
pub(crate) fn environment(name: &str, package: &str) -> PathBuf {
    let environment = Path::new(MADE).join(name);
    let programs = environment.join("bin");
    output(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package];
    output(Command::new(programs.join("python")).args(install));
    programs
}

/// A file with this content.
pub(crate) fn write(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(MADE).join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

/// What a command prints.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
