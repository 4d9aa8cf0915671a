//! What is sent: the list of files and directories, as the sender finds it and as the receiver checks it.
//!
//! Invariant of a [`Received`] manifest: every path is a [`SafePath`], none is there twice, and the whole
//! takes bounded memory. Invariant of a [`Found`] one: every path is what a receiver of the same kind of
//! system accepts. Parents come before their children.

use std::{
    collections::HashSet,
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use thiserror::Error;

use super::{
    message::{Entry, Kind},
    paths::{PathError, Rules, SafePath, printable},
};

/// Files and directories of one transfer.
pub const ENTRIES_MAX: usize = 1_000_000;
/// Bytes of all their paths together: bounds the receiver's memory.
const PATHS_BYTES_MAX: usize = 128 << 20;

/// A file the sender is going to send.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where to read it.
    pub path: PathBuf,
    /// Its name on the wire.
    pub name: SafePath,
    /// Its length when it was found.
    pub bytes: u64,
}

/// What the sender found.
#[derive(Debug, Default)]
pub struct Found {
    /// What goes into the manifest.
    pub entries: Vec<Entry>,
    /// The files among them, in the same order.
    pub files: Vec<Source>,
    /// What was left out: symbolic links, pipes, devices and sockets.
    pub skipped: Vec<PathBuf>,
    names: HashSet<SafePath>,
}

/// Why a manifest could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The system does not let us look at it.
    #[error("cannot read {}: {error}", printable(&path.to_string_lossy()))]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A name that cannot be sent.
    #[error("cannot send {}: {fault}", printable(&path.to_string_lossy()))]
    Name {
        /// What.
        path: PathBuf,
        /// Why.
        fault: NameFault,
    },
    /// Two arguments with the same last name.
    #[error("two of the paths are called {0}")]
    Twice(SafePath),
    /// More than a receiver takes.
    #[error("more than {ENTRIES_MAX} files and directories")]
    TooMany,
}

/// Why a name cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameFault {
    /// Names travel as text.
    #[error("its name is not valid UTF-8")]
    NotText,
    /// `/` has no name of its own.
    #[error("it has no name")]
    NoName,
    /// A receiver would refuse it.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl Found {
    /// Looks at `paths` and everything below them. Symbolic links below them are not followed; one named here
    /// is.
    ///
    /// # Errors
    /// See [`ScanError`].
    pub fn scan(paths: &[PathBuf]) -> Result<Self, ScanError> {
        let mut found = Self::default();
        for path in paths {
            let io = |error| ScanError::Io { path: path.clone(), error };
            let metadata = fs::metadata(path).map_err(io)?;
            // `.` and `..` have a name only once resolved; a link keeps the name it was given by.
            let named = match path.file_name() {
                Some(name) => PathBuf::from(name),
                None => fs::canonicalize(path).map_err(io)?,
            };
            let fault = |fault| ScanError::Name { path: path.clone(), fault };
            let name = named.file_name().ok_or_else(|| fault(NameFault::NoName))?;
            let name = name.to_str().ok_or_else(|| fault(NameFault::NotText))?;
            found.add(path.clone(), name.to_owned(), &metadata)?;
        }
        Ok(found)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn add(&mut self, path: PathBuf, name: String, metadata: &Metadata) -> Result<(), ScanError> {
        // A tree deeper than paths are long ends in an error of `SafePath`, but a stack would not last that
        // long.
        let mut open = vec![(path, name, metadata.clone())];
        while let Some((path, name, metadata)) = open.pop() {
            let safe = SafePath::parse(&name, Rules::HERE)
                .map_err(|fault| ScanError::Name { path: path.clone(), fault: fault.into() })?;
            if !metadata.is_dir() && !metadata.is_file() {
                self.skipped.push(path);
                continue;
            }
            if self.entries.len() == ENTRIES_MAX {
                return Err(ScanError::TooMany);
            }
            if !self.names.insert(safe.clone()) {
                return Err(ScanError::Twice(safe));
            }
            if metadata.is_dir() {
                self.entries.push(Entry { path: name.clone(), kind: Kind::Directory });
                open.extend(children(&path, &name)?);
            } else {
                let (bytes, modified) = (metadata.len(), modified(&metadata));
                let kind = Kind::File { bytes, executable: executable(&metadata), modified };
                self.entries.push(Entry { path: name, kind });
                self.files.push(Source { path, name: safe, bytes });
            }
        }
        Ok(())
    }
}

/// What a directory holds, last name first: the stack it goes onto turns it around.
fn children(directory: &Path, name: &str) -> Result<Vec<(PathBuf, String, Metadata)>, ScanError> {
    let io = |path: &Path, error| ScanError::Io { path: path.to_owned(), error };
    let mut children = Vec::new();
    for child in fs::read_dir(directory).map_err(|error| io(directory, error))? {
        let child = child.map_err(|error| io(directory, error))?;
        let path = child.path();
        let Some(last) = child.file_name().to_str().map(str::to_owned) else {
            return Err(ScanError::Name { path, fault: NameFault::NotText });
        };
        let metadata = fs::symlink_metadata(&path).map_err(|error| io(&path, error))?;
        children.push((path, format!("{name}/{last}"), metadata));
    }
    children.sort_by(|a, b| b.1.cmp(&a.1));
    Ok(children)
}

/// A file the receiver is going to get.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Where it goes, below the destination.
    pub path: SafePath,
    /// Its length.
    pub bytes: u64,
    /// Whether its owner may execute it.
    pub executable: bool,
    /// When its content last changed, if the sender knows.
    pub modified: Option<SystemTime>,
}

/// A peer's manifest, checked.
#[derive(Debug, Default)]
pub struct Received {
    /// The directories, parents first.
    pub directories: Vec<SafePath>,
    /// The files in the order in which their streams come.
    pub files: Vec<Expected>,
    names: HashSet<SafePath>,
    paths_bytes: usize,
    bytes: u64,
}

/// What is wrong with a peer's manifest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// A path that does not stay below the destination, or that the system does not take.
    #[error("the path {path:?} is refused: {fault}")]
    Path {
        /// The path, cut.
        path: String,
        /// Why.
        fault: PathError,
    },
    /// The same path twice.
    #[error("the path {0} comes twice")]
    Twice(SafePath),
    /// More than the receiver keeps in memory.
    #[error("it is too long, send fewer than {ENTRIES_MAX} files at a time")]
    TooLong,
}

impl Received {
    /// Takes one more entry.
    ///
    /// # Errors
    /// See [`ManifestError`]; the manifest is not usable afterwards.
    pub fn add(&mut self, entry: Entry) -> Result<(), ManifestError> {
        let path = SafePath::parse(&entry.path, Rules::HERE).map_err(|fault| {
            let path = entry.path.chars().take(80).collect();
            ManifestError::Path { path, fault }
        })?;
        self.paths_bytes += entry.path.len();
        if self.names.len() >= ENTRIES_MAX || self.paths_bytes > PATHS_BYTES_MAX {
            return Err(ManifestError::TooLong);
        }
        if !self.names.insert(path.clone()) {
            return Err(ManifestError::Twice(path));
        }
        match entry.kind {
            Kind::Directory => self.directories.push(path),
            Kind::File { bytes, executable, modified } => {
                self.bytes = self.bytes.checked_add(bytes).ok_or(ManifestError::TooLong)?;
                let modified = modified.and_then(system_time);
                self.files.push(Expected { path, bytes, executable, modified });
            }
        }
        Ok(())
    }

    /// Bytes of all files; never overflows.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Seconds and nanoseconds since 1970.
fn modified(metadata: &Metadata) -> Option<(i64, u32)> {
    let time = metadata.modified().ok()?;
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Some((i64::try_from(after.as_secs()).ok()?, after.subsec_nanos())),
        // Before 1970 whole seconds will do.
        Err(before) => Some((-i64::try_from(before.duration().as_secs()).ok()?, 0)),
    }
}

fn system_time((seconds, nanos): (i64, u32)) -> Option<SystemTime> {
    use std::time::Duration;
    if seconds < 0 {
        return UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs()));
    }
    if nanos >= 1_000_000_000 {
        return None;
    }
    UNIX_EPOCH.checked_add(Duration::new(seconds.unsigned_abs(), nanos))
}

#[cfg(unix)]
fn executable(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn executable(_: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &Found) -> Vec<&str> {
        found.entries.iter().map(|entry| entry.path.as_str()).collect()
    }

    #[test]
    fn trees_are_listed_parents_first_and_sorted() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("top");
        fs::create_dir_all(top.join("b/empty")).unwrap();
        fs::write(top.join("b/ä ö"), b"12345").unwrap();
        fs::write(top.join("a"), b"").unwrap();
        fs::write(root.path().join("single"), b"123").unwrap();
        let found = Found::scan(&[top, root.path().join("single")]).unwrap();
        assert_eq!(names(&found), ["top", "top/a", "top/b", "top/b/empty", "top/b/ä ö", "single"]);
        assert_eq!(found.bytes(), 8);
        assert_eq!(found.files.len(), 3);
    }

    #[test]
    fn dots_are_called_by_the_name_of_their_directory() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(names(&Found::scan(&[inner.join("..")]).unwrap()), ["outer", "outer/inner"]);
        assert_eq!(names(&Found::scan(&[inner.join("")]).unwrap()), ["inner"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_left_out_unless_named() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        fs::write(root.path().join("secret"), b"1").unwrap();
        std::os::unix::fs::symlink("../secret", root.path().join("d/link")).unwrap();
        let found = Found::scan(&[root.path().join("d")]).unwrap();
        assert_eq!(names(&found), ["d"]);
        assert_eq!(found.skipped, [root.path().join("d/link")]);
        assert_eq!(names(&Found::scan(&[root.path().join("d/link")]).unwrap()), ["link"]);
    }

    #[test]
    fn equal_names_are_an_error() {
        let root = tempfile::tempdir().unwrap();
        for side in ["l", "r"] {
            fs::create_dir(root.path().join(side)).unwrap();
            fs::write(root.path().join(side).join("same"), b"1").unwrap();
        }
        let paths = [root.path().join("l/same"), root.path().join("r/same")];
        assert!(matches!(Found::scan(&paths), Err(ScanError::Twice(_))));
    }

    #[test]
    fn hostile_manifests_are_refused() {
        let file = |path: &str, bytes| Entry {
            path: path.to_owned(),
            kind: Kind::File { bytes, executable: false, modified: Some((i64::MAX, u32::MAX)) },
        };
        let mut manifest = Received::default();
        manifest.add(file("a/b", 1)).unwrap();
        assert_eq!(manifest.files[0].modified, None);
        assert!(matches!(manifest.add(file("a/b", 1)), Err(ManifestError::Twice(_))));
        assert!(matches!(manifest.add(file("../b", 1)), Err(ManifestError::Path { .. })));
        assert_eq!(manifest.add(file("c", u64::MAX)), Err(ManifestError::TooLong));
        assert_eq!(manifest.bytes(), 1);
    }
}
