//! Where each file of a manifest goes, given what exists.

use std::collections::HashMap;

use super::{
    claims::{FileId, file_id},
    destination::{Destination, Existing},
    expected::{Expected, Received},
    links,
    message::Change,
    paths::SafePath,
    verdict::{Verdict, is_name_fault},
};

/// Most names tried for one file.
pub(super) const NAMES_MAX: u32 = 1000;
/// Why a file is not kept under another name.
const TOO_LONG: &str = "its name is taken, and too long for a number";

/// What to do with one file or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// Receive it under this path, although other content exists if this changes something.
    Receive(SafePath, Option<Change>),
    /// The same exists under this path.
    There(SafePath),
    /// Do not create it.
    Settled(Verdict),
}

/// One file or link, and what to do with it.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) file: Expected,
    /// Files of its length, which may be the same.
    pub(super) candidates: Vec<SafePath>,
    /// What to do if none of them is.
    pub(super) fate: Fate,
}

/// Looks at the places of files, without changing anything.
pub(super) struct Places<'a> {
    destination: &'a Destination,
    manifest: &'a Received,
    /// Directories of the manifest that cannot be created, because their names are taken.
    blocked: HashMap<SafePath, Verdict>,
}

impl<'a> Places<'a> {
    pub(super) fn new(destination: &'a Destination, manifest: &'a Received) -> Self {
        let mut blocked = HashMap::new();
        for directory in &manifest.directories {
            let inside = directory.path.parent().is_some_and(|parent| blocked.contains_key(parent));
            let dir = &destination.0.dir;
            let path = directory.path.as_path();
            if inside || (dir.symlink_metadata(path).is_ok() && !dir.is_dir(path)) {
                blocked.insert(directory.path.clone(), Verdict::taken_by("a file"));
            }
        }
        Self { destination, manifest, blocked }
    }

    /// The directories that cannot be created.
    pub(super) fn into_blocked(self) -> HashMap<SafePath, Verdict> {
        self.blocked
    }

    pub(super) fn plan(&self, file: Expected) -> Planned {
        let (candidates, fate) = self.look(&file);
        Planned { file, candidates, fate }
    }

    /// Files that may be the same, and what to do if none of them is.
    fn look(&self, file: &Expected) -> (Vec<SafePath>, Fate) {
        let sure = |fate| (Vec::new(), fate);
        if file.path.parent().is_some_and(|parent| self.blocked.contains_key(parent)) {
            return sure(Fate::Settled(Verdict::taken_by("a file, in place of its directory,")));
        }
        if let Some(target) = &file.link
            && let Some(verdict) =
                links::refused(self.manifest.rules, &file.path, target, self.manifest.link_floor)
        {
            return sure(Fate::Settled(verdict));
        }
        if file.first.is_some() {
            return sure(self.another_name(file));
        }
        let seen = self.claimed(file, &file.path);
        let (candidates, otherwise) = match &seen {
            Seen::Nothing => return sure(Fate::Receive(file.path.clone(), None)),
            Seen::Impossible => return sure(Fate::Settled(Verdict::Name)),
            Seen::Same(_) => return sure(Fate::There(file.path.clone())),
            Seen::SameLength => (vec![file.path.clone()], Verdict::Conflict),
            Seen::Shared => (Vec::new(), Verdict::Shared),
            Seen::Directory => (Vec::new(), Verdict::taken_by("a directory")),
            Seen::Other => (Vec::new(), Verdict::Conflict),
        };
        let fate = match self.destination.policy().existing {
            Existing::Replace if seen != Seen::Directory => {
                Fate::Receive(file.path.clone(), Some(Change::Replace))
            }
            Existing::KeepBoth => return self.beside(file, candidates),
            Existing::Replace | Existing::Report => Fate::Settled(otherwise),
        };
        (candidates, fate)
    }

    /// What to do with another name of a file, whose own place is not known yet.
    fn another_name(&self, file: &Expected) -> Fate {
        if !self.destination.policy().preserve.hard_links {
            let reason = "it is another name of a file; run the receiver with --hard-links";
            return Fate::Settled(Verdict::Refused(reason.to_owned()));
        }
        match self.seen(file, &file.path) {
            Seen::Directory => Fate::Settled(Verdict::taken_by("a directory")),
            Seen::Impossible => Fate::Settled(Verdict::Name),
            _ => Fate::Receive(file.path.clone(), None),
        }
    }

    /// Another name for a file.
    fn beside(&self, file: &Expected, mut candidates: Vec<SafePath>) -> (Vec<SafePath>, Fate) {
        let mut reason = "its name and all numbered ones are taken";
        for number in 1..=NAMES_MAX {
            let Some(path) = numbered(&file.path, number) else {
                reason = TOO_LONG;
                break;
            };
            if self.manifest.contains(&path) {
                continue;
            }
            match self.claimed(file, &path) {
                Seen::Nothing => return (candidates, Fate::Receive(path, Some(Change::KeepBoth))),
                Seen::Same(_) => return (Vec::new(), Fate::There(path)),
                Seen::SameLength => candidates.push(path),
                Seen::Directory | Seen::Other | Seen::Shared => {}
                Seen::Impossible => {
                    reason = TOO_LONG;
                    break;
                }
            }
        }
        (candidates, Fate::Settled(Verdict::Refused(reason.to_owned())))
    }

    /// What has a name; if it counts as the same, this entry has it from now on.
    fn claimed(&self, file: &Expected, path: &SafePath) -> Seen {
        match self.seen(file, path) {
            Seen::Same(id) if !self.destination.1.claim(id, path) => Seen::Shared,
            seen => seen,
        }
    }

    fn seen(&self, file: &Expected, path: &SafePath) -> Seen {
        let dir = &self.destination.0.dir;
        let metadata = match dir.symlink_metadata(path.as_path()) {
            Ok(metadata) => metadata,
            Err(error) if is_name_fault(&error) => return Seen::Impossible,
            Err(_) => return Seen::Nothing,
        };
        if metadata.is_dir() {
            return Seen::Directory;
        }
        let id = file_id(&metadata);
        if let Some(target) = &file.link {
            let same = metadata.is_symlink() && links::has_target(dir, path, target);
            return if same { Seen::Same(id) } else { Seen::Other };
        }
        if !metadata.is_file() || file.pipe || metadata.len() != file.bytes {
            return Seen::Other;
        }
        let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
        if self.destination.policy().quick_check && modified.is_some() && modified == file.modified {
            return Seen::Same(id);
        }
        Seen::SameLength
    }
}

/// What has a name.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// The file system does not accept the name.
    Impossible,
    /// What the sender has.
    Same(FileId),
    /// The same, but it is that of another entry.
    Shared,
    /// A file that may be the same.
    SameLength,
    Directory,
    Other,
}

/// `name (1).ext` for `name.ext`.
pub(super) fn numbered(path: &SafePath, number: u32) -> Option<SafePath> {
    let whole = path.as_bytes();
    let name_at = path.parent().map_or(0, |parent| parent.len() + 1);
    let name = whole.get(name_at..)?;
    // A dot in front is no extension.
    let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&at| at > 0).unwrap_or(name.len());
    let (stem, extension) = whole.split_at_checked(name_at + dot)?;
    SafePath::parse(&[stem, format!(" ({number})").as_bytes(), extension].concat()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_before_the_extension() {
        let second = |text: &str| {
            let path = SafePath::parse(text.as_bytes()).unwrap();
            numbered(&path, 2).map(|path| path.to_string())
        };
        for (text, expected) in [
            ("a", "a (2)"),
            ("d.d/a", "d.d/a (2)"),
            ("d/a.tar.gz", "d/a.tar (2).gz"),
            ("d/.profile", "d/.profile (2)"),
        ] {
            assert_eq!(second(text).as_deref(), Some(expected));
        }
        assert_eq!(second(&"n".repeat(255)), None);
    }
}
