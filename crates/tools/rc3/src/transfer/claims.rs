//! Which file at the destination each entry of a transfer has.
//!
//! Invariant: no two entries have the same one, by device and inode, whether it was written or existed already. A hard link
//! that the sender announces is no other entry but another name of the first. Names do
//! not show it: directories may be links to each other, file systems may ignore letter case, files may have several names.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, Metadata};

use super::paths::{SafePath, directory_of};

/// A file of this system: device and inode.
pub(super) type FileId = (u64, u64);

/// The files of one transfer, with the path by which each was reached. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Claims(Arc<Mutex<HashMap<FileId, SafePath>>>);

impl Claims {
    /// Gives an existing file to the entry with this path; returns whether no other entry has it.
    pub(super) fn claim(&self, file: FileId, path: &SafePath) -> bool {
        self.lock().entry(file).or_insert_with(|| path.clone()) == path
    }

    /// Whether the entry with this path has the file.
    pub(super) fn has(&self, file: FileId, path: &SafePath) -> bool {
        self.lock().get(&file) == Some(path)
    }

    /// A new file has this path.
    pub(super) fn place(&self, file: Option<FileId>, path: &SafePath) {
        self.lock().extend(file.map(|file| (file, path.clone())));
    }

    /// Whether no entry loses its file if another one gets the name `path`.
    pub(super) fn may_replace(&self, dir: &Dir, path: &SafePath) -> bool {
        let Some((file, names)) = identity(dir, path) else { return true };
        let Some(owner) = self.lock().get(&file).cloned() else { return true };
        // The inode may be in use again.
        let is_stale = identity(dir, &owner).is_none_or(|(there, _)| there != file);
        is_stale || owner == *path || (names > 1 && are_two_names(dir, &owner, path))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FileId, SafePath>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Device and inode, or what this system has in their place.
pub(super) fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// The file with this name, and how many names it has.
pub(super) fn identity(dir: &Dir, path: &SafePath) -> Option<(FileId, u64)> {
    let metadata = dir.symlink_metadata(path.as_path()).ok()?;
    Some((file_id(&metadata), metadata.nlink()))
}

/// Whether two paths of one file are separate names of it, and not two ways to write one name.
fn are_two_names(dir: &Dir, one: &SafePath, other: &SafePath) -> bool {
    let paths = [one.as_path(), other.as_path()];
    let (parents, names) = (paths.map(directory_of), paths.map(Path::file_name));
    let id = |path| dir.metadata(path).ok().as_ref().map(file_id);
    if id(parents[0]) != id(parents[1]) {
        return true;
    }
    let Ok(entries) = dir.read_dir(parents[0]) else { return false };
    let listed: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names[0] != names[1] && names.iter().flatten().all(|name| listed.iter().any(|listed| listed == name))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use cap_std::ambient_authority;

    use super::*;

    fn path(text: &str) -> SafePath {
        SafePath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_name_is_replaced_only_if_no_other_entry_loses_its_file() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("d")).unwrap();
        fs::create_dir_all(at("e")).unwrap();
        symlink("d", at("alias")).unwrap();
        fs::write(at("d/f"), b"1").unwrap();
        fs::hard_link(at("d/f"), at("d/g")).unwrap();
        fs::hard_link(at("d/f"), at("e/f")).unwrap();
        let dir = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        let claims = Claims::default();
        let id = |name| identity(&dir, &path(name)).unwrap().0;
        assert!(claims.may_replace(&dir, &path("d/f")));
        assert!(claims.claim(id("d/f"), &path("d/f")) && claims.claim(id("d/f"), &path("d/f")));
        for other in ["alias/f", "d/g", "e/f"] {
            assert!(!claims.claim(id(other), &path(other)), "{other}");
        }
        // A name of its own may get another file.
        for (other, may) in [
            ("d/f", true),
            ("alias/f", false),
            ("d/g", true),
            ("e/f", true),
            ("alias/g", true),
            ("d/new", true),
        ] {
            assert_eq!(claims.may_replace(&dir, &path(other)), may, "{other}");
        }
        fs::remove_file(at("d/g")).unwrap();
        fs::remove_file(at("e/f")).unwrap();
        assert!(!claims.may_replace(&dir, &path("alias/f")));
        // Something else has replaced the file.
        fs::write(at("new"), b"2").unwrap();
        let new = id("new");
        fs::rename(at("new"), at("d/f")).unwrap();
        claims.place(Some(new), &path("elsewhere"));
        assert!(claims.may_replace(&dir, &path("alias/f")));
    }
}
