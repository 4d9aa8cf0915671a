//! What the tests of several commands share.

use std::{
    fs, io,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

pub(crate) fn rc3() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rc3"));
    unknowing(&mut command).env_remove("RC3_TICKET").env_remove("RC3_MEET").stdin(Stdio::null());
    command
}

/// Uses no memory of paths, leaves no files, and logs nothing.
pub(crate) fn unknowing(command: &mut Command) -> &mut Command {
    command.env_remove("RUST_LOG").env_remove("HOME").env_remove("XDG_STATE_HOME")
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Every path below `root` with its content; directories end in `/`.
pub(crate) fn tree(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for child in fs::read_dir(directory).expect("a directory") {
            let path = child.expect("an entry").path();
            let name = path.strip_prefix(root).expect("below").to_str().expect("text").to_owned();
            if path.is_dir() {
                found.push((name + "/", Vec::new()));
                open.push(path);
            } else {
                match fs::read(path) {
                    // A receiver has replaced or removed it meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    content => found.push((name, content.expect("a file"))),
                }
            }
        }
    }
    found.sort();
    found
}

/// A test fails instead of hanging.
pub(crate) fn wait_until(or_else: &str, there: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !there() {
        assert!(Instant::now() < until, "{or_else}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
