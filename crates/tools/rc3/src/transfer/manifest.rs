//! The manifest as the sender collects it: the list of files, links and directories.
//!
//! Invariant: a receiver with the same kind of system accepts every path, and everything skipped is listed.

use std::{
    collections::{
        HashMap, HashSet,
        hash_map::Entry::{Occupied, Vacant},
    },
    fmt,
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;

use super::{
    attributes::{self, ALL_BYTES_MAX, Attribute, Dropped, Preserve},
    gaps::Gaps,
    holes,
    message::{Entry, Kind, Modified},
    paths::{PathError, SafePath, printable_path},
    patterns::Patterns,
    rights,
    stamp::Stamp,
    unlisted::{self, HELD_BYTES_MAX},
    verdict::Omission,
};
use crate::{
    error::{Error, ErrorKind, Result},
    system,
};

/// Files and directories of one transfer.
pub const ENTRIES_MAX: usize = 1_000_000;

/// A file or directory to send.
#[derive(Debug, Clone)]
pub struct SourceEntry {
    /// Where to read it; the name that the user gives a pipe.
    pub path: PathBuf,
    /// Its name on the wire.
    pub name: SafePath,
    /// Its properties when it was found.
    pub kind: Kind,
    /// Recognises that it has changed since.
    pub stamp: Stamp,
    /// Its content, if its length does not show it.
    pub held: Option<Bytes>,
    /// What else to keep of it.
    pub attributes: Vec<Attribute>,
}

impl SourceEntry {
    /// Bytes of its content.
    pub fn bytes(&self) -> u64 {
        match self.kind {
            Kind::File { bytes, .. } => bytes,
            Kind::Directory { .. } | Kind::Link { .. } | Kind::Pipe | Kind::HardLink { .. } => 0,
        }
    }

    /// Its entry in the manifest.
    pub fn entry(&self) -> Entry {
        let name = match self.kind {
            Kind::Pipe => self.path.as_os_str().as_encoded_bytes(),
            _ => self.name.as_bytes(),
        };
        Entry { path: name.to_owned(), kind: self.kind.clone() }
    }

    /// Ranges of its content that are zeros, neither sent nor hashed.
    pub fn holes(&self) -> Gaps {
        match &self.kind {
            Kind::File { bytes, holes, .. } => Gaps::parse(holes, *bytes),
            _ => None,
        }
        .unwrap_or_else(|| Gaps::whole(0))
    }

    /// The ranges that are sent and hashed: all others.
    pub fn data(&self) -> Gaps {
        Gaps::whole(self.bytes()).without(&self.holes())
    }
}

/// A skipped entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its path; for a directory, everything in it is skipped.
    pub path: PathBuf,
    /// Its name on the wire, if it has one.
    pub name: Option<SafePath>,
    /// Why.
    pub reason: LeaveOut,
}

impl LeftOut {
    /// Its name, if the receiver learns of it: it misses what should be there.
    pub fn absent(&self) -> Option<&SafePath> {
        self.name.as_ref().filter(|_| matches!(self.reason, LeaveOut::Unreadable(_)))
    }

    fn error(&self) -> Error {
        let path = printable_path(&self.path);
        let (message, hint) = match &self.reason {
            LeaveOut::Unreadable(reason) => {
                (format!("cannot read {path}: {reason}"), "check the path and its permissions")
            }
            reason => {
                (format!("cannot send {path}: {reason}"), "rename it, or pack it into an archive first")
            }
        };
        Error::new(ErrorKind::Other, message, hint)
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", printable_path(&self.path), self.reason)
    }
}

/// Why an entry is skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// It cannot be read: the system error as text.
    #[error("cannot read it: {0}")]
    Unreadable(String),
}

impl From<io::Error> for LeaveOut {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// What to send of the content of directories.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Send symbolic links as links.
    pub links: bool,
    /// Which files.
    pub patterns: Patterns,
    /// What to keep of them.
    pub preserve: Preserve,
}

/// Result of the sender's scan.
#[derive(Debug, Default)]
pub struct Found {
    /// The entries for the manifest.
    pub entries: Vec<SourceEntry>,
    /// The skipped entries.
    pub left_out: Vec<LeftOut>,
    /// What is not kept of the entries.
    pub dropped: Dropped,
    held_bytes: usize,
    attributes_bytes: usize,
    /// Files with more than one name.
    linked: HashSet<(u64, u64)>,
}

impl Found {
    /// Lists `paths` and what is selected below them. Symbolic links below them are never followed; one in `paths` is.
    /// What cannot be read or named is left out.
    ///
    /// # Errors
    /// When two paths have one name, or there are more than [`ENTRIES_MAX`] entries. If nothing is left, why the first of
    /// `paths` is left out.
    pub fn scan(paths: &[PathBuf], selection: &Selection) -> Result<Self> {
        let mut found = Self::default();
        let mut names = HashSet::new();
        for path in paths {
            let (name, metadata) = match look(path) {
                Ok(seen) => seen,
                Err(reason) => {
                    let name =
                        path.file_name().and_then(|name| SafePath::parse(name.as_encoded_bytes()).ok());
                    found.left_out.push(LeftOut { path: path.clone(), name, reason });
                    continue;
                }
            };
            // Below different names all paths differ.
            if !names.insert(name.clone()) {
                let message = format!("two of the paths have the name {name}");
                let hint = "send them one after the other, or send a directory that holds both";
                return Err(Error::new(ErrorKind::Other, message, hint));
            }
            found.add(path.clone(), name, metadata, selection)?;
        }
        if selection.patterns.is_selective() {
            found.remove_empty_directories();
        }
        found.link_names(selection.preserve.hard_links);
        match found.left_out.first().filter(|_| names.is_empty()) {
            Some(left_out) => Err(left_out.error()),
            None => Ok(found),
        }
    }

    /// A pipe, with the name of the file that a receiver with a directory writes. That receiver checks it.
    pub fn pipe(name: Option<&str>) -> Self {
        let path = PathBuf::from(name.unwrap_or_default());
        let (name, stamp) = (SafePath::of_pipe(), Stamp::default());
        Self {
            entries: vec![SourceEntry {
                path,
                name,
                kind: Kind::Pipe,
                stamp,
                held: None,
                attributes: Vec::new(),
            }],
            ..Self::default()
        }
    }

    /// Gives the only argument another name.
    ///
    /// # Errors
    /// When a receiver would refuse a path with that name.
    pub fn rename(&mut self, name: &[u8]) -> Result<(), PathError> {
        let names = self.entries.iter_mut().map(|entry| &mut entry.name);
        for old in names.chain(self.left_out.iter_mut().filter_map(|left_out| left_out.name.as_mut())) {
            let bytes = old.as_bytes();
            let below = bytes.iter().position(|&byte| byte == b'/').map_or(&[][..], |slash| &bytes[slash..]);
            *old = SafePath::parse(&[name, below].concat())?;
        }
        Ok(())
    }

    /// A file as it is now, for a second try.
    ///
    /// # Errors
    /// When it is no file any more, or cannot be read.
    pub fn look_again(file: &SourceEntry) -> Result<SourceEntry, Omission> {
        // Only the paths of the command line may be links.
        let look = if file.name.parent().is_none() { fs::metadata } else { fs::symlink_metadata };
        let metadata = look(&file.path)?;
        if !metadata.is_file() {
            return Err(Omission::Changed);
        }
        let kind = kind(&file.path, &metadata, false).map_err(|_| Omission::Changed)?;
        Ok(SourceEntry { kind, stamp: Stamp::of(&metadata), held: None, ..file.clone() })
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
        self.entries = kept;
    }

    /// Lets further names of a file refer to the first one, or counts them.
    fn link_names(&mut self, keep: bool) {
        let mut firsts = HashMap::new();
        for (at, entry) in (0..).zip(&mut self.entries) {
            let file = entry.stamp.file();
            if !matches!(entry.kind, Kind::File { .. }) || !self.linked.contains(&file) {
                continue;
            }
            match firsts.entry(file) {
                Vacant(new) => drop(new.insert(at)),
                Occupied(first) if keep => {
                    entry.kind = Kind::HardLink { first: *first.get() };
                    (entry.held, entry.attributes) = (None, Vec::new());
                }
                Occupied(_) => self.dropped.hard_links += 1,
            }
        }
    }

    /// What else to keep of a file or directory, and what not.
    fn attributes(&mut self, path: &Path, preserve: Preserve) -> Vec<Attribute> {
        let (mut found, is_whole) = attributes::of(path, ALL_BYTES_MAX - self.attributes_bytes);
        self.dropped.count(&found, preserve);
        found.retain(|attribute| attribute.is_in(preserve));
        self.attributes_bytes += found.iter().map(Attribute::cost).sum::<usize>();
        self.dropped.long += usize::from(!is_whole && (preserve.xattrs || preserve.acls));
        found
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(SourceEntry::bytes).sum()
    }

    /// How many of the entries are files or links.
    pub fn file_count(&self) -> usize {
        self.entries.iter().filter(|entry| !matches!(entry.kind, Kind::Directory { .. })).count()
    }

    /// Whether this is only a pipe.
    pub fn is_pipe(&self) -> bool {
        self.entries.first().is_some_and(|entry| entry.kind == Kind::Pipe)
    }

    fn add(
        &mut self,
        path: PathBuf,
        name: SafePath,
        metadata: Metadata,
        selection: &Selection,
    ) -> Result<()> {
        let Selection { links, patterns, preserve } = selection;
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
            let room = HELD_BYTES_MAX - self.held_bytes;
            let read = kind(&path, &metadata, *links).and_then(|kind| {
                let children = if directory { self.children(&path, &name)? } else { Vec::new() };
                let is_file = metadata.is_file();
                Ok((kind, if is_file { unlisted::content(&path, &metadata, room)? } else { None }, children))
            });
            let (mut kind, held, children) = match read {
                Ok(read) => read,
                Err(reason) => {
                    self.left_out.push(LeftOut { path, name: Some(name), reason });
                    continue;
                }
            };
            if self.entries.len() == ENTRIES_MAX {
                let message = format!("more than {ENTRIES_MAX} files and directories");
                return Err(Error::new(ErrorKind::Other, message, "pack them into an archive first"));
            }
            open.extend(children.into_iter().map(|(path, name, metadata)| (path, name, metadata, chosen)));
            if let (Some(held), Kind::File { bytes, holes, .. }) = (&held, &mut kind) {
                *bytes = held.len() as u64;
                holes.clear();
                self.held_bytes += held.len();
            }
            let stamp = Stamp::of(&metadata);
            if metadata.is_file() && system::names(&metadata) > 1 {
                self.linked.insert(stamp.file());
            }
            let attributes =
                if metadata.is_symlink() { Vec::new() } else { self.attributes(&path, *preserve) };
            self.entries.push(SourceEntry { path, name, kind, stamp, held, attributes });
        }
        Ok(())
    }

    /// Entries of a directory, last name first: pushing them onto a stack reverses them.
    fn children(
        &mut self,
        directory: &Path,
        name: &SafePath,
    ) -> io::Result<Vec<(PathBuf, SafePath, Metadata)>> {
        let mut children = Vec::new();
        for child in fs::read_dir(directory)? {
            let child = child?;
            let path = child.path();
            let below = [name.as_bytes(), child.file_name().as_encoded_bytes()].join(&b'/');
            let (name, reason) = match SafePath::parse(&below) {
                Ok(below) => match fs::symlink_metadata(&path) {
                    Ok(metadata) => {
                        children.push((path, below, metadata));
                        continue;
                    }
                    Err(error) => (Some(below), error.into()),
                },
                Err(fault) => (None, fault.into()),
            };
            self.left_out.push(LeftOut { path, name, reason });
        }
        children.sort_by(|a, b| b.1.cmp(&a.1));
        Ok(children)
    }
}

/// The name and properties of a path from the command line.
fn look(path: &Path) -> Result<(SafePath, Metadata), LeaveOut> {
    let metadata = fs::metadata(path)?;
    // `.` and `..` get a name only by resolving; a link keeps its own name.
    let named = match path.file_name() {
        Some(name) => PathBuf::from(name),
        None => fs::canonicalize(path)?,
    };
    // `/` has no name of its own.
    let name = named.file_name().ok_or(PathError::Empty)?;
    Ok((SafePath::parse(name.as_encoded_bytes())?, metadata))
}

fn kind(path: &Path, metadata: &Metadata, links: bool) -> Result<Kind, LeaveOut> {
    let modified = metadata.modified().ok().and_then(since_1970);
    if metadata.is_dir() {
        return Ok(Kind::Directory { mode: rights::of(path, metadata), modified });
    }
    if metadata.is_symlink() {
        if !links {
            return Err(LeaveOut::Link);
        }
        let target = fs::read_link(path)?.as_os_str().as_encoded_bytes().to_owned();
        return Ok(Kind::Link { target, modified });
    }
    if !metadata.is_file() {
        return Err(LeaveOut::Special);
    }
    let (mode, holes) = (rights::of(path, metadata), holes::of(path, metadata));
    Ok(Kind::File { bytes: metadata.len(), mode, modified, holes })
}

/// Seconds and nanoseconds since 1970.
fn since_1970(time: SystemTime) -> Option<Modified> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Some((i64::try_from(after.as_secs()).ok()?, after.subsec_nanos())),
        Err(before) => {
            // Nanoseconds count forward from the second before.
            let before = before.duration();
            let (whole, rest) = (i64::try_from(before.as_secs()).ok()?, before.subsec_nanos());
            Some(if rest == 0 { (-whole, 0) } else { (-whole - 1, 1_000_000_000 - rest) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::expected::system_time, *};

    #[test]
    fn times_arrive_as_they_were_before_1970_too() {
        for nanos in [-1_500_000_000_i64, -1_000_000_000, -500_000_000, 0, 500_000_000, 1_500_000_000] {
            let distance = std::time::Duration::from_nanos(nanos.unsigned_abs());
            let time = if nanos < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance };
            assert_eq!(since_1970(time).and_then(system_time), Some(time), "{nanos}");
        }
    }

    fn scan(paths: &[PathBuf]) -> Result<Found> {
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
    }

    #[test]
    fn dots_are_called_by_the_name_of_their_directory() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(names(&scan(&[inner.join("..")]).unwrap()), ["outer", "outer/inner"]);
        assert_eq!(names(&scan(&[inner.join("")]).unwrap()), ["inner"]);
    }

    #[test]
    fn links_are_left_out_unless_named() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        fs::write(root.path().join("secret"), b"1").unwrap();
        std::os::unix::fs::symlink("../secret", root.path().join("d/link")).unwrap();
        let found = scan(&[root.path().join("d")]).unwrap();
        assert_eq!(names(&found), ["d"]);
        let path = root.path().join("d/link");
        assert_eq!((found.left_out.len(), &found.left_out[0].path), (1, &path));
        assert_eq!(found.left_out[0].reason, LeaveOut::Link);
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
        assert!(scan(&paths).unwrap_err().to_string().contains("have the name same"));
    }

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
        let reasons: Vec<_> = found.left_out.iter().map(|left_out| left_out.reason.clone()).collect();
        assert_eq!(reasons, [LeaveOut::Name(PathError::Part), LeaveOut::Name(PathError::TooLong)]);
        assert!(scan(&[part]).is_err());
    }

    #[test]
    fn links_are_entries_if_chosen() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        std::os::unix::fs::symlink("../nowhere", root.path().join("d/link")).unwrap();
        let selection = Selection { links: true, ..Selection::default() };
        let found = Found::scan(&[root.path().join("d")], &selection).unwrap();
        assert_eq!((names(&found), found.file_count()), (vec!["d", "d/link"], 1));
        assert!(matches!(&found.entries[1].kind, Kind::Link { target, .. } if target == b"../nowhere"));
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
                Found::scan(std::slice::from_ref(&top), &Selection { patterns, ..Selection::default() })
                    .unwrap();
            names(&found).join(" ")
        };
        assert_eq!(chosen(&["*.rs"], &[]), "top top/a top/a/x.rs top/target top/target/z.rs");
        assert_eq!(chosen(&["*.rs"], &["target/"]), "top top/a top/a/x.rs");
        assert_eq!(chosen(&[], &["*.rs"]), "top top/a top/a/x.o top/b top/b/y.o top/target");
        assert_eq!(chosen(&["a/", "top/b/*"], &["*.rs"]), "top top/a top/a/x.o top/b top/b/y.o");
        assert_eq!(chosen(&["nothing"], &[]), "");
    }
}
