//! Symbolic links that arrive.
//!
//! Invariant: no link leads out of the destination, and none is made through another link. A target may go up only at
//! its beginning, and not beyond the destination: a `..` after a name could follow another link. So it stays inside if
//! the directories on the way to the link are no links, and if all other links stay inside. Links are made after all
//! files, so that nothing of the same transfer is written through one.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use rustix::fs::{AtFlags, OFlags, Timespec, Timestamps, UTIME_OMIT, utimensat};

use super::{
    claims::identity,
    destination::{Destination, Existing},
    expected::Expected,
    paths::SafePath,
    verdict::{Fault, Verdict},
};

/// Whether a link at `path` leads out of the directory that the first `floor` names of its path lead to.
pub(super) fn stays_inside(path: &SafePath, target: &[u8], floor: usize) -> bool {
    if target.starts_with(b"/") {
        return false;
    }
    let mut depth = path.as_bytes().iter().filter(|&&byte| byte == b'/').count();
    let mut down = false;
    for name in target.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if down || depth <= floor => return false,
            b".." => depth -= 1,
            _ => down = true,
        }
    }
    true
}

/// Whether a link has this target.
pub(super) fn has_target(dir: &Dir, path: &SafePath, target: &[u8]) -> bool {
    let found = dir.read_link_contents(path.as_path());
    found.is_ok_and(|found| found.as_os_str().as_bytes() == target)
}

impl Destination {
    /// Makes a link, with the expected time if possible.
    ///
    /// # Errors
    /// See [`Fault`].
    pub(super) fn make_link(&self, expected: &Expected, target: &[u8]) -> Result<(), Fault> {
        let parent = self.real_parent(&expected.path)?;
        let name = expected.path.as_path().file_name().map(Path::new);
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let target = OsStr::from_bytes(target);
        let replace = self.policy().existing == Existing::Replace;
        match parent.symlink_contents(target, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && replace => {
                if !self.1.may_replace(&self.0.dir, &expected.path) {
                    return Err(Fault::Settled(Verdict::Shared));
                }
                let new = PathBuf::from(format!(".link.{}{}", self.0.tag(), super::paths::PART_SUFFIX));
                parent.symlink_contents(target, &new)?;
                parent.rename(&new, &parent, name).inspect_err(|_| drop(parent.remove_file(&new)))?;
            }
            made => made?,
        }
        set_link_time(&parent, name, expected);
        self.1.place(identity(&self.0.dir, &expected.path).map(|(id, _)| id), &expected.path);
        Ok(())
    }

    /// The directory of a path, reached without following any link.
    fn real_parent(&self, path: &SafePath) -> io::Result<Dir> {
        let mut dir = self.0.dir.try_clone()?;
        for name in path.as_path().parent().into_iter().flat_map(Path::components) {
            let mut options = OpenOptions::new();
            let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits();
            options.read(true).custom_flags(flags.cast_signed());
            dir = Dir::from_std_file(dir.open_with(Path::new(name.as_os_str()), &options)?.into_std());
        }
        Ok(dir)
    }
}

/// Not every file system has times of links.
fn set_link_time(parent: &Dir, name: &Path, expected: &Expected) {
    let since = expected.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let Some(since) = since else { return };
    let Ok(tv_sec) = since.as_secs().try_into() else { return };
    let last_modification = Timespec { tv_sec, tv_nsec: since.subsec_nanos().into() };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access, last_modification };
    let _ = utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW);
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use super::{super::destination::Policy, *};

    fn path(text: &str) -> SafePath {
        SafePath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn targets_that_could_lead_out_are_refused() {
        for (link, target, inside) in [
            ("l", "a", true),
            ("l", "a/b", true),
            ("l", "./a//b/", true),
            ("l", ".", true),
            ("l", "...", true),
            ("d/l", "../a", true),
            ("d/e/l", "../../a", true),
            ("d/l", "..", true),
            ("l", "/etc/passwd", false),
            ("l", "..", false),
            ("l", "../inside/a", false),
            ("d/l", "../../a", false),
            // `a` may be a link.
            ("d/l", "a/../../b", false),
            ("d/e/f/l", "a/..", false),
            ("l", "./..", false),
        ] {
            assert_eq!(stays_inside(&path(link), target.as_bytes(), 0), inside, "{link} -> {target}");
        }
        // Out of a directory that was asked for.
        for (link, target, inside) in
            [("d/l", "a", true), ("d/l", "../a", false), ("d/e/l", "../a", true), ("d/e/l", "../../a", false)]
        {
            assert_eq!(stays_inside(&path(link), target.as_bytes(), 1), inside, "{link} -> {target}");
        }
    }

    #[test]
    fn links_are_not_made_through_links() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("deep/er")).unwrap();
        symlink("deep/er", root.path().join("short")).unwrap();
        let destination = Destination::open(root.path(), Policy::default(), [7; 32]).unwrap();
        let link = |text| Expected::new(path(text), 0);
        // `short/l` has the depth 1, the directory it would be in has 2.
        assert!(destination.make_link(&link("short/l"), b"x").is_err());
        assert!(destination.make_link(&link("nowhere/l"), b"x").is_err());
        let dated = Expected {
            modified: Some(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000)),
            ..link("deep/er/l")
        };
        destination.make_link(&dated, b"../x").unwrap();
        let made = root.path().join("deep/er/l");
        assert_eq!(fs::read_link(&made).unwrap(), Path::new("../x"));
        assert_eq!(made.symlink_metadata().unwrap().modified().unwrap(), dated.modified.unwrap());
        assert!(has_target(&destination.0.dir, &dated.path, b"../x"));
        assert!(matches!(destination.make_link(&dated, b"y"), Err(Fault::Settled(Verdict::Conflict))));

        let policy = Policy { existing: Existing::Replace, ..Policy::default() };
        let destination = Destination::open(root.path(), policy, [7; 32]).unwrap();
        destination.make_link(&dated, b"y").unwrap();
        assert_eq!(fs::read_link(&made).unwrap(), Path::new("y"));
        assert_eq!(fs::read_dir(root.path().join("deep/er")).unwrap().count(), 1);
        // A directory is not replaced.
        assert!(destination.make_link(&link("deep"), b"y").is_err());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }
}
