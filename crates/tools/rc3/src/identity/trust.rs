//! Whether a file or directory is only its user's: nobody else, except root, may own it or have rights that expose it.

use std::{
    fs::{self, File, Metadata},
    io,
    path::Path,
};

use crate::{
    error::{Error, ErrorKind, Result},
    system,
    transfer::paths::{directory_of, printable_path},
};

/// A file or directory that others can use, so it is not trusted.
fn distrusted(path: &Path, mode: u32, verb: &str) -> Error {
    let hint = match verb {
        "use" => "run chmod 600 on it if nobody else has read it; otherwise remove it",
        _ => "check its content, then run chmod go-w on it",
    };
    let message = format!("{} has mode {mode:03o}, so others can {verb} it", printable_path(path));
    Error::new(ErrorKind::Local, message, hint)
}

/// Expects that nobody else can read or change a file.
///
/// # Errors
/// When they can, or the system does not report who can.
pub(super) fn expect_private(path: &Path, file: &File) -> Result<()> {
    expect(path, file.metadata(), 0o077, "use")
}

/// Expects that nobody else can change a file, or the names in its directory: removing a list of known peers would let
/// another host pretend to be one of them.
///
/// # Errors
/// When they can, or the system does not report who can.
pub(super) fn expect_unchanged(path: &Path, file: &File) -> Result<()> {
    expect(path, file.metadata(), 0o022, "change")
}

/// As [`expect_unchanged`], for the directory of a file. One that does not exist is nobody's.
///
/// # Errors
/// When they can, or the system does not report who can.
pub(super) fn expect_own_directory(path: &Path) -> Result<()> {
    let parent = directory_of(path);
    match fs::metadata(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        found => expect(parent, found, 0o022, "change"),
    }
}

fn expect(path: &Path, found: io::Result<Metadata>, exposing: u32, verb: &'static str) -> Result<()> {
    let found = found.map_err(|error| Error::local(format!("read {}", printable_path(path)), error))?;
    if let Some(owner) = system::other_owner(&found).filter(|&owner| owner != 0) {
        let message = format!("{} belongs to user {owner}, who can change it", printable_path(path));
        let hint = "run as that user, or name another file or directory";
        return Err(Error::new(ErrorKind::Local, message, hint));
    }
    let Some(mode) = system::mode(&found) else { return Ok(()) };
    // In a sticky directory nobody can remove or rename files of others.
    let sticky = found.is_dir() && mode & 0o1000 != 0;
    if mode & exposing != 0 && !sticky {
        return Err(distrusted(path, mode & 0o777, verb));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, chown},
    };

    use super::*;

    fn is_owned(outcome: Result<()>) -> bool {
        outcome.is_err_and(|error| error.to_string().contains("belongs to user 1234"))
    }

    fn tried(path: &Path) -> [Result<()>; 3] {
        let file = File::open(path).unwrap();
        [expect_private(path, &file), expect_unchanged(path, &file), expect_own_directory(path)]
    }

    #[test]
    fn files_and_directories_of_others_are_not_trusted_whatever_their_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, b"").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(tried(&path).iter().all(Result::is_ok));
        if !rustix::process::geteuid().is_root() {
            return crate::skip::skipped("root, to give a file away");
        }
        chown(&path, Some(1234), None).unwrap();
        let [private, unchanged, parent] = tried(&path);
        assert!(is_owned(private));
        assert!(is_owned(unchanged));
        assert!(parent.is_ok());
        chown(&path, Some(0), None).unwrap();
        chown(directory.path(), Some(1234), None).unwrap();
        let [private, unchanged, parent] = tried(&path);
        assert!(private.is_ok() && unchanged.is_ok());
        assert!(is_owned(parent));
    }

    #[test]
    fn directories_that_others_can_write_are_trusted_only_with_the_sticky_bit() {
        let directory = tempfile::tempdir().unwrap();
        for (mode, trusted) in [(0o755, true), (0o775, false), (0o757, false), (0o1777, true)] {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
            let outcome = expect_own_directory(&directory.path().join("file"));
            assert_eq!(outcome.is_ok(), trusted, "{mode:o}: {outcome:?}");
        }
    }
}
