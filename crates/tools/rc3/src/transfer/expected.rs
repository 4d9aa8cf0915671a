//! The manifest as the receiver checks it.
//!
//! Invariant: every path is a [`SafePath`] and unique, every directory precedes its content, and memory is bounded.

use std::{
    collections::HashMap,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    attributes::{ALL_BYTES_MAX, Attribute, Dropped, Preserve},
    gaps::Gaps,
    manifest::ENTRIES_MAX,
    message::{EARLY_FILES_MAX, Entry, Kind, LINK_BYTES_MAX, Modified},
    paths::{Rules, SafePath, misleads, printable, printable_bytes},
    rights::MODE_BITS,
};
use crate::error::{Error, Result};

/// Total bytes of all paths: bounds the receiver's memory.
const PATHS_BYTES_MAX: usize = 128 << 20;

/// An entry that the receiver will get.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Its path below the destination.
    pub path: SafePath,
    /// Its index in the manifest.
    pub entry: u32,
    /// Its length; for a pipe so far.
    pub bytes: u64,
    /// The most permission bits it may have; the defaults for new files or directories if the sender's system has none.
    pub mode: Option<u32>,
    /// When its content, or its list of names, last changed, if the sender knows.
    pub modified: Option<SystemTime>,
    /// Ranges that are zeros and neither sent nor hashed.
    pub holes: Gaps,
    /// The target of a link.
    pub link: Option<Vec<u8>>,
    /// The entry of which this is another name.
    pub first: Option<u32>,
    /// What else to keep of it, if this side wants to.
    pub attributes: Vec<Attribute>,
    /// Whether it is a stream of unknown length.
    pub pipe: bool,
}

impl Expected {
    /// The first entry of a manifest: without known mode, time and holes.
    pub fn new(path: SafePath, bytes: u64) -> Self {
        let holes = Gaps::whole(0);
        Self {
            path,
            entry: 0,
            bytes,
            mode: None,
            modified: None,
            holes,
            link: None,
            first: None,
            attributes: Vec::new(),
            pipe: false,
        }
    }

    /// Whether it is made after all files, without a stream.
    pub fn is_link(&self) -> bool {
        self.link.is_some() || self.first.is_some()
    }

    /// Whether a stream carries it if nothing of it exists.
    pub fn has_stream(&self) -> bool {
        self.pipe || self.bytes > self.holes.len()
    }

    /// What a stream carries if nothing of it exists: all but the holes.
    pub fn data(&self) -> Gaps {
        Gaps::whole(self.bytes).without(&self.holes)
    }
}

/// A peer's manifest, checked.
#[derive(Debug, Default)]
pub struct Received {
    /// The directories, parents first.
    pub directories: Vec<Expected>,
    /// The files and links in the order of their streams and indices.
    pub files: Vec<Expected>,
    /// Entries whose names this system does not have: never to be opened.
    pub unnameable: Vec<Expected>,
    /// Paths with characters that can mislead a reader: see [`misleads`].
    pub misleading: Vec<SafePath>,
    /// What the sender cannot read, with its reasons: never to be opened.
    pub absent: Vec<(SafePath, String)>,
    /// Names at the front of a path that its link must not lead out of.
    pub link_floor: usize,
    /// Which names and links to refuse.
    pub(super) rules: Rules,
    /// Lengths of the files.
    pub totals: Totals,
    /// All paths, each with whether it is a directory.
    names: HashMap<SafePath, bool>,
    entries: u32,
    paths_bytes: usize,
    attributes_bytes: usize,
}

/// Lengths of all files of a manifest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    bytes: u64,
}

impl Totals {
    /// Adds a file of this length; returns its holes.
    ///
    /// # Errors
    /// When a peer violates the protocol; nothing is added then.
    pub fn add(&mut self, path: &SafePath, bytes: u64, holes: &[(u64, u64)]) -> Result<Gaps> {
        let all = self.bytes.checked_add(bytes).ok_or_else(too_long)?;
        let holes = Gaps::parse(holes, bytes)
            .ok_or_else(|| Error::protocol(format!("impossible holes in {path}")))?;
        self.bytes = all;
        Ok(holes)
    }

    /// Another version of a file: its new length and holes are in place of the old ones. Returns the file then expected.
    ///
    /// # Errors
    /// When a peer violates the protocol.
    pub fn replace(&mut self, old: &Expected, kind: Kind) -> Result<Expected> {
        let Kind::File { bytes, mode, modified, holes } = kind else {
            return Err(Error::protocol(format!("{} is a file no more", old.path)));
        };
        self.bytes -= old.bytes;
        let holes = self.add(&old.path, bytes, &holes)?;
        let (mode, modified) = (mode.map(|mode| mode & MODE_BITS), modified.and_then(system_time));
        Ok(Expected { bytes, mode, modified, holes, ..old.clone() })
    }
}

impl Received {
    /// An empty manifest, whose links must not lead out of the first `link_floor` names of their paths.
    pub fn below(link_floor: usize) -> Self {
        Self { link_floor, ..Self::default() }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// When a peer violates the protocol; the manifest is unusable afterwards.
    pub fn add(&mut self, entry: Entry) -> Result<()> {
        let at = self.entries;
        self.paths_bytes += entry.path.len();
        if at as usize >= ENTRIES_MAX || self.paths_bytes > PATHS_BYTES_MAX {
            return Err(too_long());
        }
        self.entries += 1;
        if self.is_pipe() || (entry.kind == Kind::Pipe && at > 0) {
            return Err(Error::protocol("a pipe beside other files"));
        }
        if entry.kind == Kind::Pipe && entry.path.is_empty() {
            return Err(Error::refused("a stream without a name; use rc3 send --name, or rc3 recv --stdout"));
        }
        let path = parse(&entry.path)?;
        if path.parent().is_some_and(|parent| self.names.get(parent) != Some(&true)) {
            return Err(Error::protocol(format!("the parent of the path {path} is not a listed directory")));
        }
        let directory = matches!(entry.kind, Kind::Directory { .. });
        if self.names.insert(path.clone(), directory).is_some() {
            return Err(Error::protocol(format!("the path {path} appears twice")));
        }
        if String::from_utf8_lossy(path.as_bytes()).contains(misleads) {
            self.misleading.push(path.clone());
        }
        let expected = self.expected(path, entry.kind, at)?;
        let list = if SafePath::parse_by(self.rules, &entry.path).is_err() {
            &mut self.unnameable
        } else if directory {
            &mut self.directories
        } else {
            &mut self.files
        };
        list.push(expected);
        Ok(())
    }

    /// Adds an attribute to the file or directory that came last.
    ///
    /// # Errors
    /// When a peer violates the protocol; the manifest is unusable afterwards.
    pub fn add_attribute(&mut self, attribute: Attribute) -> Result<()> {
        self.attributes_bytes += attribute.cost();
        if self.attributes_bytes > ALL_BYTES_MAX {
            return Err(too_long());
        }
        let last = self.entries.checked_sub(1).filter(|_| attribute.is_valid());
        let last = last.ok_or_else(|| Error::protocol("an impossible attribute"))?;
        let latest = [self.files.last_mut(), self.directories.last_mut()];
        // An entry without a usable name is not there.
        let latest = latest.into_iter().flatten().find(|file| file.entry == last && !file.is_link());
        latest.into_iter().for_each(|file| file.attributes.push(attribute.clone()));
        Ok(())
    }

    /// What of it `preserve` does not keep.
    pub(super) fn dropped(&self, preserve: Preserve) -> Dropped {
        let mut dropped = Dropped::default();
        let all = self.files.iter().chain(&self.directories);
        all.for_each(|file| dropped.count(&file.attributes, preserve));
        dropped
    }

    /// Whether files of entries below this index may be sent before they are accepted.
    pub(super) fn admits_early(&self, early: u32) -> bool {
        let all = self.files.iter().chain(&self.unnameable);
        let files = all.filter(|file| file.entry < early && !file.is_link());
        early <= self.entries && files.count() <= EARLY_FILES_MAX as usize
    }

    /// Adds something that the sender cannot read.
    ///
    /// # Errors
    /// When a peer violates the protocol; the manifest is unusable afterwards.
    pub fn add_absent(&mut self, path: &[u8], reason: &str) -> Result<()> {
        self.paths_bytes += path.len() + reason.len();
        if self.absent.len() >= ENTRIES_MAX || self.paths_bytes > PATHS_BYTES_MAX {
            return Err(too_long());
        }
        self.absent.push((parse(path)?, printable(reason)));
        Ok(())
    }

    fn expected(&mut self, path: SafePath, kind: Kind, entry: u32) -> Result<Expected> {
        let new = |mode: Option<u32>, modified: Option<Modified>| Expected {
            entry,
            mode: mode.map(|mode| mode & MODE_BITS),
            modified: modified.and_then(system_time),
            ..Expected::new(path.clone(), 0)
        };
        Ok(match kind {
            Kind::Directory { mode, modified } => new(mode, modified),
            Kind::File { bytes, mode, modified, holes } => {
                let holes = self.totals.add(&path, bytes, &holes)?;
                Expected { bytes, holes, ..new(mode, modified) }
            }
            Kind::Link { target, modified } => {
                if target.is_empty() || target.len() > LINK_BYTES_MAX || target.contains(&0) {
                    return Err(Error::protocol(format!("an impossible link {path}")));
                }
                self.paths_bytes += target.len();
                Expected { link: Some(target), ..new(None, modified) }
            }
            Kind::HardLink { first } => {
                let at = self.files.binary_search_by_key(&first, |file| file.entry);
                if at.is_ok_and(|at| self.files[at].is_link() || self.files[at].pipe) || first >= entry {
                    return Err(Error::protocol(format!("{path} is a name of no file")));
                }
                Expected { first: Some(first), ..new(None, None) }
            }
            Kind::Pipe => Expected { pipe: true, ..new(None, None) },
        })
    }

    /// Whether the manifest has a path.
    pub fn contains(&self, path: &SafePath) -> bool {
        self.names.contains_key(path)
    }

    /// Total bytes of the files; cannot overflow.
    pub fn bytes(&self) -> u64 {
        self.totals.bytes
    }

    /// Whether a stream of unknown length is announced.
    pub fn is_pipe(&self) -> bool {
        self.files.first().is_some_and(|file| file.pipe)
    }

    /// How many entries are announced.
    pub fn entries(&self) -> u32 {
        self.entries
    }
}

/// A path of a sender of any system.
fn parse(path: &[u8]) -> Result<SafePath> {
    SafePath::parse_by(Rules::Unix, path).map_err(|fault| {
        let cut = path.get(..80).unwrap_or(path);
        Error::protocol(format!("refused path {}: {fault}", printable_bytes(cut)))
    })
}

fn too_long() -> Error {
    Error::protocol(format!("its list of files is too long, send fewer than {ENTRIES_MAX} at a time"))
}

/// A time of a message as the system's; `None` if it has none.
pub(super) fn system_time((seconds, nanos): Modified) -> Option<SystemTime> {
    use std::time::Duration;
    if nanos >= 1_000_000_000 {
        return None;
    }
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second?.checked_add(Duration::from_nanos(nanos.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(added: Result<()>, why: &str) {
        let error = added.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn impossible_holes_and_links_are_refused() {
        let entry = |kind| Entry { path: b"a".to_vec(), kind };
        let file = |bytes, holes: &[(u64, u64)]| {
            entry(Kind::File { bytes, mode: None, modified: None, holes: holes.to_vec() })
        };
        for holes in [&[(0, 11)][..], &[(5, 4)], &[(0, 2), (1, 3)], &[(3, 3)]] {
            refused(Received::default().add(file(10, holes)), "impossible holes");
        }
        assert!(Received::default().add(file(1 << 50, &[(0, 1 << 50)])).is_ok());
        assert!(Received::default().add(file(10, &[(0, 10)])).is_ok());
        let long = vec![b'a'; LINK_BYTES_MAX + 1];
        for target in [&b""[..], b"a\0b", &long] {
            let link = entry(Kind::Link { target: target.to_vec(), modified: None });
            refused(Received::default().add(link), "an impossible link");
        }
    }

    #[test]
    fn names_that_windows_does_not_have_do_not_stop_the_others() {
        let mut manifest = Received { rules: Rules::Windows, ..Received::default() };
        let directory = Kind::Directory { mode: None, modified: None };
        let file = Kind::File { bytes: 1, mode: None, modified: None, holes: Vec::new() };
        for (path, kind) in [
            ("C:", &directory),
            ("C:/Windows", &file),
            ("nul", &file),
            ("d", &directory),
            ("d/a\\..\\b", &file),
            ("d/a", &file),
        ] {
            manifest.add(Entry { path: path.into(), kind: kind.clone() }).unwrap();
        }
        assert_eq!(manifest.unnameable.iter().map(|entry| entry.entry).collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert_eq!(manifest.files.iter().map(|file| file.entry).collect::<Vec<_>>(), [5]);
        for (path, kind) in
            [("d/../b", &file), ("nul/../b", &file), ("b\0", &file), ("none/b", &file), ("C:/Windows", &file)]
        {
            let entry = Entry { path: path.into(), kind: kind.clone() };
            assert!(manifest.add(entry).is_err(), "{path}");
        }
        manifest.add_absent(b"a:b", "locked").unwrap();
        assert_eq!(manifest.absent.len(), 1);
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
            refused(manifest.add(twice), "appears twice");
        }
        for stray in [file("b/c", 1), directory("b/c/d"), file("a/b/c", 1), directory("a/b/c")] {
            let mut manifest = Received::default();
            manifest.add(directory("a")).unwrap();
            manifest.add(file("a/b", 1)).unwrap();
            refused(manifest.add(stray), "is not a listed directory");
        }
        refused(manifest.add(file("../b", 1)), "refused path");
        let error = manifest.add(file("\u{202e}/../b", 1)).unwrap_err().to_string();
        assert!(error.contains("\\u{202e}/../b"), "{error}");
        manifest.add(file("large", 1 << 62)).unwrap();
        refused(manifest.add(file("c", u64::MAX)), "too long");
        assert_eq!(manifest.bytes(), (1 << 62) + 1);
        let mut manifest = Received::default();
        for name in ["gpj\u{202e}", "a\rb", "\u{9b}", "emoji \u{1f469}\u{200d}\u{1f469}", "\u{5d0}\u{200f}"] {
            manifest.add(file(name, 1)).unwrap();
        }
        assert_eq!(manifest.misleading.len(), 3);
    }

    #[test]
    fn attributes_and_hard_links_are_bounded_and_belong_to_files() {
        let attribute = |bytes| Attribute { name: b"user.a".to_vec(), value: vec![1; bytes] };
        let mut manifest = Received::default();
        assert!(manifest.add_attribute(attribute(1)).is_err(), "of no entry");
        let add = |manifest: &mut Received, name: &str, kind| {
            manifest.add(Entry { path: name.as_bytes().to_vec(), kind })
        };
        let file = || Kind::File { bytes: 1, mode: None, modified: None, holes: Vec::new() };
        add(&mut manifest, "d", Kind::Directory { mode: None, modified: None }).unwrap();
        manifest.add_attribute(attribute(1)).unwrap();
        add(&mut manifest, "f", file()).unwrap();
        manifest.add_attribute(attribute(1)).unwrap();
        manifest.add_attribute(attribute(2)).unwrap();
        add(&mut manifest, "g", Kind::HardLink { first: 1 }).unwrap();
        manifest.add_attribute(attribute(1)).unwrap();
        let counts = |files: &[Expected]| files.iter().map(|file| file.attributes.len()).collect::<Vec<_>>();
        assert_eq!((counts(&manifest.directories), counts(&manifest.files)), (vec![1], vec![2, 0]));
        let dropped = manifest.dropped(Preserve::default());
        assert_eq!(dropped, Dropped { xattrs: 2, ..Dropped::default() });
        // Of another name, of itself, and of what is yet to come.
        for first in [2, 3, 4, u32::MAX] {
            let mut manifest = Received::default();
            for name in ["a", "b"] {
                add(&mut manifest, name, file()).unwrap();
            }
            add(&mut manifest, "c", Kind::HardLink { first: 0 }).unwrap();
            assert!(add(&mut manifest, "e", Kind::HardLink { first }).is_err(), "{first}");
        }
        add(&mut manifest, "h", file()).unwrap();
        let most = (0..).take_while(|_| manifest.add_attribute(attribute(4096)).is_ok()).count();
        assert!(most < ALL_BYTES_MAX / 4096 + 1, "{most}");
    }
}
