//! The program with QUIC implementations of others, which is a workspace of its own (`peers/`).

use std::path::{Path, PathBuf};

/// Its path: the given one, or that of `rc3-peers` beside this program; `None` if there is no such file.
pub fn find(given: Option<&Path>) -> Option<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("rc3-peers"));
    given.map(Path::to_owned).or_else(beside).filter(|program| program.exists())
}
