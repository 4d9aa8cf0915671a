//! The manifest: the list of files, links and directories, as the sender collects it and as the receiver checks it.
//!
//! Invariant of a [`Received`] manifest: every path is a [`SafePath`] and unique, every directory precedes its content,
//! and memory is bounded. Invariant of a [`Found`] manifest: a receiver with the same kind of system accepts every
//! path, and everything skipped is listed.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use thiserror::Error;

use super::{
    gaps::Gaps,
    holes,
    message::{Entry, Kind, LINK_BYTES_MAX, Modified},
    paths::{PathError, Rules, SafePath, misleads, name_bytes, printable_bytes, printable_path},
    patterns::Patterns,
    rights::{self, MODE_BITS},
};

/// Files and directories of one transfer.
pub const ENTRIES_MAX: usize = 1_000_000;
/// Total bytes of their paths: bounds the receiver's memory.
const PATHS_BYTES_MAX: usize = 128 << 20;
/// Most bytes in the holes of all files together: bounds how many zeros a receiver hashes without receiving a byte.
const HOLES_BYTES_MAX: u64 = 64 << 30;

/// A file or directory to send.
#[derive(Debug, Clone)]
pub struct SourceEntry {
    /// Where to read it.
    pub path: PathBuf,
    /// Its name on the wire.
    pub name: SafePath,
    /// Its properties when it was found.
    pub kind: Kind,
}

impl SourceEntry {
    /// Bytes of its content.
    pub fn bytes(&self) -> u64 {
        match self.kind {
            Kind::File { bytes, .. } => bytes,
            Kind::Directory { .. } | Kind::Link { .. } => 0,
        }
    }

    /// Its entry in the manifest.
    pub fn entry(&self) -> Entry {
        Entry { path: self.name.as_bytes().to_owned(), kind: self.kind.clone() }
    }

    /// Ranges of its content that are not sent.
    pub fn holes(&self) -> Gaps {
        match &self.kind {
            Kind::File { bytes, holes, .. } => Gaps::parse(holes, *bytes),
            _ => None,
        }
        .unwrap_or_else(|| Gaps::whole(0))
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        matches!(self.kind, Kind::Link { .. })
    }
}

/// A skipped entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its path; for a directory, everything in it is skipped.
    pub path: PathBuf,
    /// Why.
    pub reason: LeaveOut,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", printable_path(&self.path), self.reason)
    }
}

/// Why an entry is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LeaveOut {
    /// A symbolic link.
    #[error("links are sent only with --links")]
    Link,
    /// It is neither a file nor a directory nor a link.
    #[error("pipes, devices and sockets are not sent")]
    Special,
    /// Its name cannot be sent.
    #[error(transparent)]
    Name(#[from] PathError),
}

/// What to send of the content of directories.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Send symbolic links as links.
    pub links: bool,
    /// Which files.
    pub patterns: Patterns,
}

/// Result of the sender's scan.
#[derive(Debug, Default)]
pub struct Found {
    /// The entries for the manifest.
    pub entries: Vec<SourceEntry>,
    /// Which of them are files or links.
    files: Vec<u32>,
    /// The skipped entries.
    pub left_out: Vec<LeftOut>,
    holes_bytes: u64,
}

/// Why a manifest could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScanError {
    /// An entry cannot be read.
    #[error("cannot read {}: {error}", printable_path(path))]
    Io {
        /// The path.
        path: PathBuf,
        /// The system error.
        error: io::Error,
    },
    /// A path from the command line whose name cannot be sent.
    #[error("cannot send {}: {fault}", printable_path(path))]
    Name {
        /// The path.
        path: PathBuf,
        /// The reason.
        fault: NameFault,
    },
    /// Two arguments with the same last name.
    #[error("two of the paths have the name {0}")]
    Twice(SafePath),
    /// More than a receiver accepts.
    #[error("more than {ENTRIES_MAX} files and directories")]
    TooMany,
}

/// Why a path from the command line cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameFault {
    /// `/` has no name of its own.
    #[error("it has no name")]
    NoName,
    /// A receiver would refuse it.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl Found {
    /// Lists `paths` and what is selected below them. Symbolic links below them are never followed; one in `paths` is.
    ///
    /// # Errors
    /// See [`ScanError`].
    pub fn scan(paths: &[PathBuf], selection: &Selection) -> Result<Self, ScanError> {
        let mut found = Self::default();
        let mut names = HashSet::new();
        for path in paths {
            let io = |error| ScanError::Io { path: path.clone(), error };
            let metadata = fs::metadata(path).map_err(io)?;
            // `.` and `..` get a name only by resolving; a link keeps its own name.
            let named = match path.file_name() {
                Some(name) => PathBuf::from(name),
                None => fs::canonicalize(path).map_err(io)?,
            };
            let fault = |fault| ScanError::Name { path: path.clone(), fault };
            let name = named.file_name().ok_or_else(|| fault(NameFault::NoName))?;
            let name = name_bytes(name).ok_or(PathError::NotText);
            let name =
                name.and_then(|name| SafePath::parse(name, Rules::HERE)).map_err(|e| fault(e.into()))?;
            // Below different names all paths differ.
            if !names.insert(name.clone()) {
                return Err(ScanError::Twice(name));
            }
            found.add(path.clone(), name, metadata, selection)?;
        }
        if selection.patterns.is_selective() {
            found.remove_empty_directories();
        }
        Ok(found)
    }

    /// Gives the only argument another name.
    ///
    /// # Errors
    /// When a receiver would refuse a path with that name.
    pub fn rename(&mut self, name: &[u8]) -> Result<(), PathError> {
        for entry in &mut self.entries {
            let old = entry.name.as_bytes();
            let below = old.iter().position(|&byte| byte == b'/').map_or(&[][..], |slash| &old[slash..]);
            entry.name = SafePath::parse(&[name, below].concat(), Rules::HERE)?;
        }
        Ok(())
    }

    /// Directories without a chosen file.
    fn remove_empty_directories(&mut self) {
        let mut needed: HashSet<Vec<u8>> = HashSet::new();
        let mut kept = Vec::new();
        // Content follows its directory.
        for entry in std::mem::take(&mut self.entries).into_iter().rev() {
            let directory = matches!(entry.kind, Kind::Directory { .. });
            if !directory || needed.contains(entry.name.as_bytes()) {
                needed.extend(entry.name.parent().map(<[u8]>::to_owned));
                kept.push(entry);
            }
        }
        kept.reverse();
        let file = |(at, entry): (u32, &SourceEntry)| match entry.kind {
            Kind::Directory { .. } => None,
            _ => Some(at),
        };
        self.files = (0..).zip(&kept).filter_map(file).collect();
        self.entries = kept;
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(SourceEntry::bytes).sum()
    }

    /// How many of the entries are files or links.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The files and links with their indices, in order.
    pub fn files(&self) -> impl Iterator<Item = (u32, &SourceEntry)> {
        (0..).zip(&self.files).filter_map(|(at, &entry)| Some((at, self.entries.get(entry as usize)?)))
    }

    /// A file by its index among the files.
    pub fn file(&self, at: u32) -> Option<&SourceEntry> {
        let entry = *self.files.get(usize::try_from(at).ok()?)?;
        self.entries.get(usize::try_from(entry).ok()?)
    }

    /// The index among the files of an entry.
    pub fn file_of_entry(&self, entry: u32) -> Option<u32> {
        Some(self.files.binary_search(&entry).ok()? as u32)
    }

    fn add(
        &mut self,
        path: PathBuf,
        name: SafePath,
        metadata: Metadata,
        selection: &Selection,
    ) -> Result<(), ScanError> {
        let Selection { links, patterns } = selection;
        // A directory that is chosen as a whole includes its content. Recursion would overflow the stack before
        // `SafePath` skips deep trees.
        let mut open = vec![(path, name, metadata, false)];
        while let Some((path, name, metadata, mut chosen)) = open.pop() {
            let directory = metadata.is_dir();
            if patterns.excludes(&name, directory) {
                continue;
            }
            chosen |= patterns.includes(&name, directory);
            if !directory && !chosen {
                continue;
            }
            let kind = match self.kind(&path, &metadata, *links) {
                Ok(kind) => kind,
                Err(reason) => {
                    self.left_out.push(LeftOut { path, reason });
                    continue;
                }
            };
            if self.entries.len() == ENTRIES_MAX {
                return Err(ScanError::TooMany);
            }
            if directory {
                let children = self.children(&path, &name)?;
                open.extend(
                    children.into_iter().map(|(path, name, metadata)| (path, name, metadata, chosen)),
                );
            } else {
                // Fewer than `ENTRIES_MAX`.
                self.files.push(self.entries.len() as u32);
            }
            self.entries.push(SourceEntry { path, name, kind });
        }
        Ok(())
    }

    fn kind(&mut self, path: &Path, metadata: &Metadata, links: bool) -> Result<Kind, LeaveOut> {
        let modified = modified(metadata);
        if metadata.is_dir() {
            return Ok(Kind::Directory { mode: rights::of(path, metadata), modified });
        }
        if metadata.is_symlink() {
            let target = links.then(|| fs::read_link(path).ok()).flatten().ok_or(LeaveOut::Link)?;
            let target = name_bytes(target.as_os_str()).ok_or(PathError::NotText)?.to_owned();
            return Ok(Kind::Link { target, modified });
        }
        if !metadata.is_file() {
            return Err(LeaveOut::Special);
        }
        let mut holes = holes::of(path, metadata);
        let bytes: u64 = holes.iter().map(|(start, end)| end - start).sum();
        if self.holes_bytes + bytes > HOLES_BYTES_MAX {
            // More than a receiver accepts: sent as zeros.
            holes.clear();
        } else {
            self.holes_bytes += bytes;
        }
        Ok(Kind::File { bytes: metadata.len(), mode: rights::of(path, metadata), modified, holes })
    }

    /// Entries of a directory, last name first: pushing them onto a stack reverses them.
    fn children(
        &mut self,
        directory: &Path,
        name: &SafePath,
    ) -> Result<Vec<(PathBuf, SafePath, Metadata)>, ScanError> {
        let io = |path: &Path, error| ScanError::Io { path: path.to_owned(), error };
        let mut children = Vec::new();
        for child in fs::read_dir(directory).map_err(|error| io(directory, error))? {
            let child = child.map_err(|error| io(directory, error))?;
            let path = child.path();
            let below = match name_bytes(&child.file_name()) {
                Some(last) => SafePath::parse(&[name.as_bytes(), last].join(&b'/'), Rules::HERE),
                None => Err(PathError::NotText),
            };
            match below {
                Ok(below) => {
                    let metadata = fs::symlink_metadata(&path).map_err(|error| io(&path, error))?;
                    children.push((path, below, metadata));
                }
                Err(fault) => self.left_out.push(LeftOut { path, reason: fault.into() }),
            }
        }
        children.sort_by(|a, b| b.1.cmp(&a.1));
        Ok(children)
    }
}

/// A file or link the receiver will get.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Its path below the destination.
    pub path: SafePath,
    /// Its index among the entries of the manifest.
    pub entry: u32,
    /// Its index among the files and links of the manifest.
    pub index: u32,
    /// Its length.
    pub bytes: u64,
    /// The most permission bits it may have; the defaults for new files if the sender's system has none.
    pub mode: Option<u32>,
    /// When its content last changed, if the sender knows.
    pub modified: Option<SystemTime>,
    /// Ranges that are zeros and not sent.
    pub holes: Gaps,
    /// The target of a link.
    pub link: Option<Vec<u8>>,
}

impl Expected {
    /// The first file of a manifest: without known mode, time and holes.
    pub fn new(path: SafePath, bytes: u64) -> Self {
        let holes = Gaps::whole(0);
        Self { path, entry: 0, index: 0, bytes, mode: None, modified: None, holes, link: None }
    }
}

/// A directory the receiver will create.
#[derive(Debug, Clone)]
pub struct ExpectedDirectory {
    /// Its path below the destination.
    pub path: SafePath,
    /// Its index among the entries of the manifest.
    pub entry: u32,
    /// The most permission bits it may have; the defaults for new directories if the sender's system has none.
    pub mode: Option<u32>,
    /// When its list of names last changed, if the sender knows.
    pub modified: Option<SystemTime>,
}

/// A peer's manifest, checked.
#[derive(Debug, Default)]
pub struct Received {
    /// The directories, parents first.
    pub directories: Vec<ExpectedDirectory>,
    /// The files and links in the order of their streams and indices.
    pub files: Vec<Expected>,
    /// Entries whose names this system does not have.
    pub unnameable: Vec<u32>,
    /// Paths with characters that can mislead a reader: see [`misleads`].
    pub misleading: Vec<SafePath>,
    /// All paths, each with whether it is a directory.
    names: HashMap<SafePath, bool>,
    entries: u32,
    file_count: u32,
    paths_bytes: usize,
    bytes: u64,
    holes_bytes: u64,
}

/// What is wrong with a peer's manifest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// A path that leaves the destination, or that the system does not accept.
    #[error("refused path {path}: {fault}")]
    Path {
        /// The path, shortened and printable.
        path: String,
        /// The reason.
        fault: PathError,
    },
    /// The same path twice.
    #[error("the path {0} appears twice")]
    Twice(SafePath),
    /// Its parent is not a directory of the manifest.
    #[error("the parent of the path {0} is not a listed directory")]
    NoDirectory(SafePath),
    /// Ranges outside the file, or too many.
    #[error("impossible holes in {0}")]
    Holes(SafePath),
    /// A target that no link can have.
    #[error("an impossible link {0}")]
    Link(SafePath),
    /// More than the receiver keeps in memory.
    #[error("it is too long, send fewer than {ENTRIES_MAX} files at a time")]
    TooLong,
}

impl Received {
    /// Adds an entry.
    ///
    /// # Errors
    /// See [`ManifestError`]; the manifest is unusable afterwards.
    pub fn add(&mut self, entry: Entry) -> Result<(), ManifestError> {
        let at = self.entries;
        self.paths_bytes += entry.path.len();
        if at as usize >= ENTRIES_MAX || self.paths_bytes > PATHS_BYTES_MAX {
            return Err(ManifestError::TooLong);
        }
        self.entries += 1;
        let index = self.file_count;
        self.file_count += u32::from(!matches!(entry.kind, Kind::Directory { .. }));
        let path = match SafePath::parse(&entry.path, Rules::HERE) {
            Ok(path) => path,
            Err(fault) if fault.is_harmless(&entry.path) => {
                self.unnameable.push(at);
                return Ok(());
            }
            Err(fault) => {
                let cut = entry.path.get(..80).unwrap_or(&entry.path);
                return Err(ManifestError::Path { path: printable_bytes(cut), fault });
            }
        };
        if path.parent().is_some_and(|parent| self.names.get(parent) != Some(&true)) {
            return Err(ManifestError::NoDirectory(path));
        }
        let directory = matches!(entry.kind, Kind::Directory { .. });
        if self.names.insert(path.clone(), directory).is_some() {
            return Err(ManifestError::Twice(path));
        }
        if String::from_utf8_lossy(path.as_bytes()).contains(misleads) {
            self.misleading.push(path.clone());
        }
        self.add_checked(path, entry.kind, at, index)
    }

    fn add_checked(
        &mut self,
        path: SafePath,
        kind: Kind,
        entry: u32,
        index: u32,
    ) -> Result<(), ManifestError> {
        let new = Expected { entry, index, ..Expected::new(path.clone(), 0) };
        match kind {
            Kind::Directory { mode, modified } => {
                let (mode, modified) = (mode.map(|mode| mode & MODE_BITS), modified.and_then(system_time));
                self.directories.push(ExpectedDirectory { path, entry, mode, modified });
            }
            Kind::File { bytes, mode, modified, holes } => {
                self.bytes = self.bytes.checked_add(bytes).ok_or(ManifestError::TooLong)?;
                let holes = Gaps::parse(&holes, bytes).ok_or(ManifestError::Holes(path))?;
                // No more than the bytes of the file, whose sum does not overflow.
                self.holes_bytes += holes.len();
                if self.holes_bytes > HOLES_BYTES_MAX {
                    return Err(ManifestError::TooLong);
                }
                let (mode, modified) = (mode.map(|mode| mode & MODE_BITS), modified.and_then(system_time));
                self.files.push(Expected { bytes, mode, modified, holes, ..new });
            }
            Kind::Link { target, modified } => {
                if target.is_empty() || target.len() > LINK_BYTES_MAX || target.contains(&0) {
                    return Err(ManifestError::Link(path));
                }
                self.paths_bytes += target.len();
                let modified = modified.and_then(system_time);
                self.files.push(Expected { modified, link: Some(target), ..new });
            }
        }
        Ok(())
    }

    /// Whether the manifest has a path.
    pub fn contains(&self, path: &SafePath) -> bool {
        self.names.contains_key(path)
    }

    /// Total bytes of the files; cannot overflow.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Seconds and nanoseconds since 1970.
fn modified(metadata: &Metadata) -> Option<Modified> {
    let time = metadata.modified().ok()?;
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Some((i64::try_from(after.as_secs()).ok()?, after.subsec_nanos())),
        // Whole seconds are enough before 1970.
        Err(before) => Some((-i64::try_from(before.duration().as_secs()).ok()?, 0)),
    }
}

fn system_time((seconds, nanos): Modified) -> Option<SystemTime> {
    use std::time::Duration;
    if seconds < 0 {
        return UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs()));
    }
    if nanos >= 1_000_000_000 {
        return None;
    }
    UNIX_EPOCH.checked_add(Duration::new(seconds.unsigned_abs(), nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(paths: &[PathBuf]) -> Result<Found, ScanError> {
        Found::scan(paths, &Selection::default())
    }

    fn names(found: &Found) -> Vec<&str> {
        found.entries.iter().map(|entry| std::str::from_utf8(entry.name.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn trees_are_listed_parents_first_and_sorted() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("top");
        fs::create_dir_all(top.join("b/empty")).unwrap();
        fs::write(top.join("b/ä ö"), b"12345").unwrap();
        fs::write(top.join("a"), b"").unwrap();
        fs::write(root.path().join("single"), b"123").unwrap();
        let found = scan(&[top, root.path().join("single")]).unwrap();
        assert_eq!(names(&found), ["top", "top/a", "top/b", "top/b/empty", "top/b/ä ö", "single"]);
        assert_eq!(found.bytes(), 8);
        assert_eq!(found.file_count(), 3);
        assert_eq!(found.file(2).unwrap().name.as_bytes(), b"single");
        assert!(found.file(3).is_none());
    }

    #[test]
    fn dots_are_called_by_the_name_of_their_directory() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(names(&scan(&[inner.join("..")]).unwrap()), ["outer", "outer/inner"]);
        assert_eq!(names(&scan(&[inner.join("")]).unwrap()), ["inner"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_left_out_unless_named() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        fs::write(root.path().join("secret"), b"1").unwrap();
        std::os::unix::fs::symlink("../secret", root.path().join("d/link")).unwrap();
        let found = scan(&[root.path().join("d")]).unwrap();
        assert_eq!(names(&found), ["d"]);
        let path = root.path().join("d/link");
        assert_eq!(found.left_out, [LeftOut { path, reason: LeaveOut::Link }]);
        assert_eq!(names(&scan(&[root.path().join("d/link")]).unwrap()), ["link"]);
    }

    #[test]
    fn equal_names_are_an_error() {
        let root = tempfile::tempdir().unwrap();
        for side in ["l", "r"] {
            fs::create_dir(root.path().join(side)).unwrap();
            fs::write(root.path().join(side).join("same"), b"1").unwrap();
        }
        let paths = [root.path().join("l/same"), root.path().join("r/same")];
        assert!(matches!(scan(&paths), Err(ScanError::Twice(_))));
    }

    #[cfg(unix)]
    #[test]
    fn names_that_cannot_be_sent_are_left_out_unless_given() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("top");
        let mut deep = top.clone();
        (0..130).for_each(|_| deep.push("d"));
        fs::create_dir_all(&deep).unwrap();
        let part = top.join(".a.0123abcd.rc3-part");
        fs::write(&part, b"1").unwrap();
        fs::write(top.join("b.rc3-part"), b"1").unwrap();
        let found = scan(std::slice::from_ref(&top)).unwrap();
        assert_eq!(found.entries.len(), 129);
        let reasons: Vec<_> = found.left_out.iter().map(|left_out| left_out.reason).collect();
        assert_eq!(reasons, [LeaveOut::Name(PathError::Part), LeaveOut::Name(PathError::TooLong)]);
        assert!(matches!(scan(&[part]), Err(ScanError::Name { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_entries_if_chosen() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        std::os::unix::fs::symlink("../nowhere", root.path().join("d/link")).unwrap();
        let selection = Selection { links: true, ..Selection::default() };
        let found = Found::scan(&[root.path().join("d")], &selection).unwrap();
        assert_eq!((names(&found), found.file_count()), (vec!["d", "d/link"], 1));
        assert!(matches!(&found.file(0).unwrap().kind, Kind::Link { target, .. } if target == b"../nowhere"));
    }

    #[test]
    fn patterns_choose_files() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("top");
        for path in ["a/x.rs", "a/x.o", "b/y.o", "target/z.rs"] {
            fs::create_dir_all(top.join(path).parent().unwrap()).unwrap();
            fs::write(top.join(path), b"1").unwrap();
        }
        let chosen = |include: &[&str], exclude: &[&str]| {
            let all = |patterns: &[&str]| patterns.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
            let patterns = Patterns::new(&all(include), &all(exclude)).unwrap();
            let found =
                Found::scan(std::slice::from_ref(&top), &Selection { links: false, patterns }).unwrap();
            for (at, &entry) in (0..).zip(&found.files) {
                assert_eq!(found.file_of_entry(entry), Some(at));
                assert!(matches!(found.file(at).unwrap().kind, Kind::File { .. }));
            }
            names(&found).join(" ")
        };
        assert_eq!(chosen(&["*.rs"], &[]), "top top/a top/a/x.rs top/target top/target/z.rs");
        assert_eq!(chosen(&["*.rs"], &["target/"]), "top top/a top/a/x.rs");
        assert_eq!(chosen(&[], &["*.rs"]), "top top/a top/a/x.o top/b top/b/y.o top/target");
        assert_eq!(chosen(&["a/", "top/b/*"], &["*.rs"]), "top top/a top/a/x.o top/b top/b/y.o");
        assert_eq!(chosen(&["nothing"], &[]), "");
    }

    #[test]
    fn impossible_holes_and_links_are_refused() {
        let entry = |kind| Entry { path: b"a".to_vec(), kind };
        let file = |bytes, holes: &[(u64, u64)]| {
            entry(Kind::File { bytes, mode: None, modified: None, holes: holes.to_vec() })
        };
        for holes in [&[(0, 11)][..], &[(5, 4)], &[(0, 2), (1, 3)], &[(3, 3)]] {
            assert!(matches!(Received::default().add(file(10, holes)), Err(ManifestError::Holes(_))));
        }
        assert_eq!(Received::default().add(file(1 << 50, &[(0, 1 << 50)])), Err(ManifestError::TooLong));
        assert!(Received::default().add(file(10, &[(0, 10)])).is_ok());
        let long = vec![b'a'; LINK_BYTES_MAX + 1];
        for target in [&b""[..], b"a\0b", &long] {
            let link = entry(Kind::Link { target: target.to_vec(), modified: None });
            assert!(matches!(Received::default().add(link), Err(ManifestError::Link(_))));
        }
    }

    #[test]
    fn hostile_manifests_are_refused() {
        let path = |path: &str| path.as_bytes().to_owned();
        let file = |name: &str, bytes| Entry {
            path: path(name),
            kind: Kind::File {
                bytes,
                mode: Some(0o7777),
                modified: Some((i64::MAX, u32::MAX)),
                holes: Vec::new(),
            },
        };
        let directory = |name: &str| Entry {
            path: path(name),
            kind: Kind::Directory { mode: Some(0o7777), modified: None },
        };
        let mut manifest = Received::default();
        manifest.add(directory("a")).unwrap();
        manifest.add(file("a/b", 1)).unwrap();
        assert_eq!((manifest.files[0].modified, manifest.files[0].mode), (None, Some(0o777)));
        assert_eq!(manifest.directories[0].mode, Some(0o777));
        for twice in [file("a/b", 1), directory("a/b"), file("a", 1)] {
            assert!(matches!(manifest.add(twice), Err(ManifestError::Twice(_))));
        }
        for stray in [file("b/c", 1), directory("b/c/d"), file("a/b/c", 1), directory("a/b/c")] {
            let mut manifest = Received::default();
            manifest.add(directory("a")).unwrap();
            manifest.add(file("a/b", 1)).unwrap();
            assert!(matches!(manifest.add(stray), Err(ManifestError::NoDirectory(_))));
        }
        assert!(matches!(manifest.add(file("../b", 1)), Err(ManifestError::Path { .. })));
        let error = manifest.add(file("\u{202e}/../b", 1)).unwrap_err().to_string();
        assert!(error.contains("\\u{202e}/../b"), "{error}");
        manifest.add(file("large", 1 << 62)).unwrap();
        assert_eq!(manifest.add(file("c", u64::MAX)), Err(ManifestError::TooLong));
        assert_eq!(manifest.bytes(), (1 << 62) + 1);
        let mut manifest = Received::default();
        for name in ["gpj\u{202e}", "a\rb", "\u{9b}", "emoji \u{1f469}\u{200d}\u{1f469}", "\u{5d0}\u{200f}"] {
            manifest.add(file(name, 1)).unwrap();
        }
        assert_eq!(manifest.misleading.len(), 3);
    }
}
