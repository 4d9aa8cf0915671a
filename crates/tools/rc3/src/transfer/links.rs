//! Symbolic and hard links that arrive.
//!
//! Invariant: no link leads out of the destination, and none is made through another link. A target may go up only at
//! its beginning, and not beyond the destination: a `..` after a name could follow another link. So it stays inside if
//! the directories on the way to the link are no links, and if all other links stay inside. Links are made after all
//! files, so that nothing of the same transfer is written through one.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use cap_fs_ext::{DirExt, SystemTimeSpec};
use cap_std::{fs::Dir, time::SystemTime};

use super::{
    claims::identity,
    destination::{Destination, Existing},
    expected::Expected,
    paths::{Rules, SafePath},
    places::{NAMES_MAX, numbered},
    verdict::{Fault, Verdict},
};
use crate::system;

/// Why a link at `path` is not made, if so: it must not lead out of the directory that the first `floor` names of its path
/// lead to, and Windows reads targets in its own way.
pub(super) fn refused(rules: Rules, path: &SafePath, target: &[u8], floor: usize) -> Option<Verdict> {
    match rules {
        Rules::Windows => Some(Verdict::Name),
        Rules::Unix => (!stays_inside(path, target, floor)).then_some(Verdict::Outside),
    }
}

fn stays_inside(path: &SafePath, target: &[u8], floor: usize) -> bool {
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
    found.is_ok_and(|found| found.as_os_str().as_encoded_bytes() == target)
}

impl Destination {
    /// Gives the file of the entry with the path `first` another name: the one expected, or one beside it that is not
    /// `announced`, which `expected` has then.
    ///
    /// # Errors
    /// See [`Fault`].
    pub(super) fn make_hard_link(
        &self,
        expected: &mut Expected,
        first: Option<&SafePath>,
        announced: &HashSet<SafePath>,
    ) -> Result<(), Fault> {
        let dir = &self.0.dir;
        let found = first.and_then(|first| Some((first, identity(dir, first)?.0)));
        let Some((first, id)) = found.filter(|&(first, id)| self.1.has(id, first)) else {
            let reason = "the file of which it is another name is not in place";
            return Err(Fault::Settled(Verdict::Refused(reason.to_owned())));
        };
        let takes = |path: &SafePath| match dir.hard_link(first.as_path(), dir, path.as_path()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(identity(dir, path).is_some_and(|(there, _)| there == id))
            }
            made => made.map(|()| true),
        };
        if takes(&expected.path)? {
            return Ok(());
        }
        let existing = self.policy().existing;
        if existing != Existing::Replace {
            // A copy of it from an earlier transfer, for example.
            let (bytes, hash) = self.content(first)?;
            let copy = Expected { bytes, ..expected.clone() };
            let Err(verdict) = self.claim_same(&copy.path, &copy, hash) else { return Ok(()) };
            let beside = (1..=NAMES_MAX).map_while(|number| numbered(&copy.path, number));
            let free = beside.filter(|path| !announced.contains(path));
            for path in free.take_while(|_| existing == Existing::KeepBoth) {
                if takes(&path)? {
                    expected.path = path;
                    return Ok(());
                }
            }
            return Err(Fault::Settled(verdict));
        }
        if !self.1.may_replace(dir, &expected.path) {
            return Err(Fault::Settled(Verdict::Shared));
        }
        let new = expected.path.part(&self.0.tag(), "");
        dir.hard_link(first.as_path(), dir, &new)?;
        Ok(dir.rename(&new, dir, expected.path.as_path()).inspect_err(|_| drop(dir.remove_file(&new)))?)
    }

    /// Makes a symbolic link, with the expected time if possible.
    ///
    /// # Errors
    /// See [`Fault`].
    pub(super) fn make_link(&self, expected: &Expected, target: &[u8]) -> Result<(), Fault> {
        let parent = self.real_parent(&expected.path)?;
        let name = expected.path.as_path().file_name().map(Path::new);
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let target = system::os_str(target);
        let replace = self.policy().existing == Existing::Replace;
        match system::make_link(&parent, target, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && replace => {
                if !self.1.may_replace(&self.0.dir, &expected.path) {
                    return Err(Fault::Settled(Verdict::Shared));
                }
                let new = PathBuf::from(format!(".link.{}{}", self.0.tag(), super::paths::PART_SUFFIX));
                system::make_link(&parent, target, &new)?;
                parent.rename(&new, &parent, name).inspect_err(|_| drop(parent.remove_file(&new)))?;
            }
            made => made?,
        }
        // `set_symlink_times` panics at times before 1970.
        if let Some(modified) = expected.modified.filter(|time| *time >= UNIX_EPOCH) {
            // Not every file system has times of links.
            let modified = SystemTimeSpec::Absolute(SystemTime::from_std(modified));
            let _ = parent.set_symlink_times(name, None, Some(modified));
        }
        self.1.place(identity(&self.0.dir, &expected.path).map(|(id, _)| id), &expected.path);
        Ok(())
    }

    /// The directory of a path, reached without following any link.
    fn real_parent(&self, path: &SafePath) -> io::Result<Dir> {
        let mut dir = self.0.dir.try_clone()?;
        for name in path.as_path().parent().into_iter().flat_map(Path::components) {
            dir = dir.open_dir_nofollow(name)?;
        }
        Ok(dir)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

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
    fn windows_gets_no_links() {
        let verdict = |rules, target| refused(rules, &path("d/l"), target, 0);
        assert_eq!(verdict(Rules::Windows, b"a"), Some(Verdict::Name));
        assert_eq!(verdict(Rules::Unix, b"a"), None);
        assert_eq!(verdict(Rules::Unix, b"../../a"), Some(Verdict::Outside));
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
        let dated =
            Expected { modified: Some(UNIX_EPOCH + Duration::from_secs(1_000_000)), ..link("deep/er/l") };
        destination.make_link(&dated, b"../x").unwrap();
        let made = root.path().join("deep/er/l");
        assert_eq!(fs::read_link(&made).unwrap(), Path::new("../x"));
        assert_eq!(made.symlink_metadata().unwrap().modified().unwrap(), dated.modified.unwrap());
        assert!(has_target(&destination.0.dir, &dated.path, b"../x"));
        assert!(matches!(destination.make_link(&dated, b"y"), Err(Fault::Settled(Verdict::Conflict))));

        let policy = Policy { existing: Existing::Replace, ..Policy::default() };
        let destination = Destination::open(root.path(), policy, [7; 32]).unwrap();
        let before_1970 = UNIX_EPOCH.checked_sub(Duration::from_secs(1));
        destination.make_link(&Expected { modified: before_1970, ..dated }, b"y").unwrap();
        assert_eq!(fs::read_link(&made).unwrap(), Path::new("y"));
        assert_eq!(fs::read_dir(root.path().join("deep/er")).unwrap().count(), 1);
        // A directory is not replaced.
        assert!(destination.make_link(&link("deep"), b"y").is_err());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }
}
