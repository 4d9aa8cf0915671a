//! The program with QUIC implementations of others, which is a workspace of its own (`peers/`).

use std::path::{Path, PathBuf};

/// The one named, or `rc3-peers` beside this program; `None` if it is not there.
pub fn find(named: Option<&Path>) -> Option<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("rc3-peers"));
    named.map(Path::to_owned).or_else(beside).filter(|program| program.exists())
}
