//! Whether a file or directory is only its user's: nobody else, except root, may own it or have rights that expose it.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::transfer::paths::printable_path;

/// Why a file or directory is not trusted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Distrust {
    /// Others can use it.
    #[error("{} has mode {mode:03o}, so others can {verb} it", printable_path(path))]
    Mode {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What they can do.
        verb: &'static str,
    },
    /// Another user owns it.
    #[error("{} belongs to user {owner}, who can change it", printable_path(path))]
    Owner {
        /// The file or directory.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
    /// It cannot be examined.
    #[error("cannot read {}: {error}", printable_path(path))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system error.
        error: io::Error,
    },
}

impl Distrust {
    /// What the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Mode { verb: "use", .. } => {
                "run chmod 600 on it if nobody else has read it; otherwise remove it"
            }
            Self::Mode { .. } => "check its content, then run chmod go-w on it",
            Self::Owner { .. } => "run as that user, or name another file or directory",
            Self::Io { .. } => "check the path and its permissions",
        }
    }
}

/// Expects that nobody else can read or change a file.
///
/// # Errors
/// See [`Distrust`].
pub(super) fn expect_private(path: &Path, file: &File) -> Result<(), Distrust> {
    expect(path, file, 0o077, "use")
}

/// Expects that nobody else can change a file, or the names in its directory: removing a list of known peers would let
/// another host pretend to be one of them.
///
/// # Errors
/// See [`Distrust`].
pub(super) fn expect_unchanged(path: &Path, file: &File) -> Result<(), Distrust> {
    expect(path, file, 0o022, "change")
}

/// As [`expect_unchanged`], for the directory of a file. One that does not exist is nobody's.
///
/// # Errors
/// See [`Distrust`].
pub(super) fn expect_own_directory(path: &Path) -> Result<(), Distrust> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or_else(|| Path::new("."));
    match File::open(parent) {
        Ok(directory) => expect(parent, &directory, 0o022, "change"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A system whose directories cannot be opened has no such owners either.
        Err(_) if cfg!(not(unix)) => Ok(()),
        Err(error) => Err(Distrust::Io { path: parent.to_owned(), error }),
    }
}

#[cfg(unix)]
fn expect(path: &Path, file: &File, exposing: u32, verb: &'static str) -> Result<(), Distrust> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata().map_err(|error| Distrust::Io { path: path.to_owned(), error })?;
    let owner = found.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(Distrust::Owner { path: path.to_owned(), owner });
    }
    // In a sticky directory nobody can remove or rename files of others.
    let sticky = found.is_dir() && found.mode() & 0o1000 != 0;
    if found.mode() & exposing != 0 && !sticky {
        return Err(Distrust::Mode { path: path.to_owned(), mode: found.mode() & 0o777, verb });
    }
    Ok(())
}

#[cfg(not(unix))]
fn expect(_: &Path, _: &File, _: u32, _: &'static str) -> Result<(), Distrust> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, chown},
    };

    use super::*;

    fn tried(path: &Path) -> [Result<(), Distrust>; 3] {
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
        assert!(matches!(private, Err(Distrust::Owner { owner: 1234, .. })));
        assert!(matches!(unchanged, Err(Distrust::Owner { owner: 1234, .. })));
        assert!(parent.is_ok());
        chown(&path, Some(0), None).unwrap();
        chown(directory.path(), Some(1234), None).unwrap();
        let [private, unchanged, parent] = tried(&path);
        assert!(private.is_ok() && unchanged.is_ok());
        assert!(matches!(parent, Err(Distrust::Owner { owner: 1234, .. })));
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
