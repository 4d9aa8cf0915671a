//! Where the sources of a copy land.

use std::path::{Path, PathBuf};

use crate::transfer::paths::name_bytes;

/// A directory, and the new name of a single source in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Landing {
    pub(super) dir: PathBuf,
    pub(super) rename: Option<Vec<u8>>,
}

impl Landing {
    /// The meaning of a destination, as for `cp` and scp: a directory, or for one source a new name in a directory. `None`
    /// if it is neither.
    pub(super) fn of(path: &Path, sources: usize) -> Option<Self> {
        if path.is_dir() {
            return Some(Self { dir: path.to_owned(), rename: None });
        }
        let names_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let name = name_bytes(path.file_name()?)?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let dir = parent.unwrap_or_else(|| Path::new(".")).to_owned();
        let is_new_name = sources == 1 && !names_directory && dir.is_dir();
        is_new_name.then_some(Self { dir, rename: Some(name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_source_may_get_a_new_name() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        let named = |name: &str| Landing { dir: dir.to_owned(), rename: Some(name.into()) };
        assert_eq!(Landing::of(dir, 3), Some(Landing { dir: dir.to_owned(), rename: None }));
        assert_eq!(Landing::of(&dir.join("new"), 1), Some(named("new")));
        assert_eq!(Landing::of(&dir.join("new"), 2), None);
        assert_eq!(Landing::of(&dir.join("new/"), 1), None);
        assert_eq!(Landing::of(&dir.join("none/new"), 1), None);
        assert_eq!(Landing::of(Path::new("new"), 1).map(|landing| landing.dir), Some(".".into()));
    }
}
