//! The directory files arrive in, and files that are not complete yet.
//!
//! Invariants. *Confined*: everything goes through one directory handle that no name and no symbolic link
//! leads out of. *All or nothing*: a file has its final name only once it is complete; before that it is
//! `.NAME.TAG.rc3-part` beside it. *Nothing lost*: without leave to overwrite, an existing name is never
//! replaced, not even one that appeared meanwhile. *Tidy*: what is not complete when the destination closes
//! is removed.

use std::{
    collections::HashSet,
    fs::{File, FileTimes},
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions},
};

use super::{
    manifest::Expected,
    paths::{PART_SUFFIX, SafePath},
};

/// Bytes read at a time when a file is read back.
const READ_BYTES: usize = 1 << 18;

/// What to do with files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Policy {
    /// Replace files of the same name.
    pub force: bool,
    /// Wait until a file is on the disk before it gets its name.
    pub fsync: bool,
}

/// A directory to receive into. Clones are the same destination.
#[derive(Debug, Clone)]
pub struct Destination(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: Dir,
    policy: Policy,
    tag: String,
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    names: HashSet<String>,
    closed: bool,
}

/// What is in the way of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// A file that [`Policy::force`] would replace.
    File,
    /// A directory, or something else that nothing replaces.
    Other,
}

impl Destination {
    /// Opens an existing directory. `tag` is a few letters that tell these incomplete files from others'.
    ///
    /// # Errors
    /// When there is no such directory.
    pub fn open(path: &Path, policy: Policy, tag: String) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        Ok(Self(Arc::new(Inner { dir, policy, tag, parts: Mutex::default() })))
    }

    /// Whether something is in the way of a file called `path`.
    pub fn conflict(&self, path: &SafePath) -> Option<Conflict> {
        let metadata = self.0.dir.symlink_metadata(path.as_str()).ok()?;
        let replaceable = metadata.is_file() || metadata.is_symlink();
        match (replaceable, self.0.policy.force) {
            (true, true) => None,
            (true, false) => Some(Conflict::File),
            (false, _) => Some(Conflict::Other),
        }
    }

    /// Makes a directory and those above it, where missing.
    ///
    /// # Errors
    /// When a file is in the way, a link leads out, or the system refuses.
    pub fn create_dir(&self, path: &str) -> io::Result<()> {
        self.0.dir.create_dir_all(path)
    }

    /// Begins a file, making the directories above it.
    ///
    /// # Errors
    /// When the system refuses, or the destination is closed.
    pub fn create(&self, path: &SafePath) -> io::Result<Part> {
        if let Some(parent) = path.parent() {
            self.create_dir(parent)?;
        }
        let name = path.part(&self.0.tag);
        let mut parts = self.0.lock();
        if parts.closed {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the transfer has ended"));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = self.0.dir.open_with(&name, &options)?.into_std();
        parts.names.insert(name.clone());
        drop(parts);
        Ok(Part { destination: self.clone(), file, name, path: path.clone() })
    }

    /// Removes all incomplete files and takes no more.
    pub fn close(&self) {
        let mut parts = self.0.lock();
        parts.closed = true;
        for name in parts.names.drain() {
            // It may be gone already; if it cannot be removed there is nobody to tell.
            let _ = self.0.dir.remove_file(name);
        }
    }
}

impl Inner {
    /// Every step under the lock leaves the set whole.
    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let parts = self.parts.get_mut().unwrap_or_else(PoisonError::into_inner);
        for name in parts.names.drain() {
            let _ = self.dir.remove_file(name);
        }
    }
}

/// A file on its way. Dropped before [`Self::finish`], it is removed.
#[derive(Debug)]
pub struct Part {
    destination: Destination,
    file: File,
    name: String,
    path: SafePath,
}

impl Part {
    /// Writes at an offset, anywhere.
    ///
    /// # Errors
    /// When the system refuses, the disk being full for example.
    pub fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_all_at(&mut self.file, bytes, offset)
    }

    /// Feeds everything from `offset` on to `hasher`, and says how many bytes that were.
    ///
    /// # Errors
    /// When it cannot be read back.
    pub fn hash_from(&mut self, offset: u64, hasher: &mut blake3::Hasher) -> io::Result<u64> {
        self.file.seek(SeekFrom::Start(offset))?;
        let mut buffer = vec![0; READ_BYTES];
        let mut total = 0;
        loop {
            let read = match self.file.read(&mut buffer) {
                Ok(0) => return Ok(total),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            hasher.update(buffer.get(..read).unwrap_or_default());
            total += read as u64;
        }
    }

    /// Gives the file its mode, its time and its final name.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when the name is taken and may not be replaced; otherwise what the
    /// system says. The incomplete file is removed.
    pub fn finish(self, expected: &Expected) -> io::Result<()> {
        if expected.executable {
            make_executable(&self.file)?;
        }
        if let Some(time) = expected.modified {
            // Not every file system keeps every time; the content matters more.
            let _ = self.file.set_times(FileTimes::new().set_modified(time));
        }
        let inner = &self.destination.0;
        if inner.policy.fsync {
            self.file.sync_all()?;
        }
        // Under the lock, so that a destination closing at this moment either removes the part or finds it
        // done.
        let mut parts = inner.lock();
        if parts.closed {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the transfer has ended"));
        }
        if inner.policy.force {
            inner.dir.rename(&self.name, &inner.dir, self.path.as_str())?;
        } else {
            rename_without_replacing(&inner.dir, &self.name, self.path.as_str())?;
        }
        parts.names.remove(&self.name);
        drop(parts);
        if inner.policy.fsync {
            self.sync_directory();
        }
        Ok(())
    }

    /// A new name is safe once its directory is; where directories cannot be synced, the system sees to it.
    fn sync_directory(&self) {
        let inner = &self.destination.0;
        let directory = match self.path.parent() {
            Some(parent) => inner.dir.open(parent),
            None => inner.dir.open("."),
        };
        if let Ok(directory) = directory {
            let _ = directory.sync_all();
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let inner = &self.destination.0;
        if inner.lock().names.remove(&self.name) {
            let _ = inner.dir.remove_file(&self.name);
        }
    }
}

/// Whether a name is one of an incomplete file.
pub fn is_part(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(PART_SUFFIX)
}

/// A second name fails where the name is taken, which a rename does not. File systems without second names
/// get a look and a rename.
fn rename_without_replacing(dir: &Dir, from: &str, to: &str) -> io::Result<()> {
    match dir.hard_link(from, dir, to) {
        Ok(()) => dir.remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if dir.symlink_metadata(to).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => dir.rename(from, dir, to),
    }
}

#[cfg(unix)]
fn write_all_at(file: &mut File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn write_all_at(file: &mut File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    io::Write::write_all(file, bytes)
}

/// Whoever may read it may execute it.
#[cfg(unix)]
fn make_executable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = file.metadata()?.permissions();
    let mode = permissions.mode();
    permissions.set_mode(mode | (mode & 0o444) >> 2);
    file.set_permissions(permissions)
}

#[cfg(not(unix))]
fn make_executable(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::transfer::paths::Rules;

    fn open(root: &Path, force: bool) -> Destination {
        Destination::open(root, Policy { force, fsync: true }, "0123".to_owned()).unwrap()
    }

    fn expected(path: &str) -> Expected {
        let path = SafePath::parse(path, Rules::HERE).unwrap();
        Expected { path, bytes: 5, executable: true, modified: Some(std::time::UNIX_EPOCH) }
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn file_gets_its_name_when_it_is_finished() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(root.path(), false);
        let expected = expected("d/a");
        let mut part = destination.create(&expected.path).unwrap();
        part.write_at(b"lo", 3).unwrap();
        part.write_at(b"hel", 0).unwrap();
        assert_eq!(names(&root.path().join("d")), [".a.0123.rc3-part"]);
        assert!(is_part(".a.0123.rc3-part"));
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"h");
        assert_eq!(part.hash_from(1, &mut hasher).unwrap(), 4);
        assert_eq!(hasher.finalize(), blake3::hash(b"hello"));
        part.finish(&expected).unwrap();
        assert_eq!(names(&root.path().join("d")), ["a"]);
        let path = root.path().join("d/a");
        assert_eq!(fs::read(&path).unwrap(), b"hello");
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), std::time::UNIX_EPOCH);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_ne!(fs::metadata(&path).unwrap().permissions().mode() & 0o100, 0);
        }
    }

    #[test]
    fn dropped_and_closed_parts_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(root.path(), false);
        drop(destination.create(&expected("a").path).unwrap());
        assert!(names(root.path()).is_empty());
        let part = destination.create(&expected("a").path).unwrap();
        destination.close();
        assert!(names(root.path()).is_empty());
        assert!(part.finish(&expected("a")).is_err());
        assert!(destination.create(&expected("b").path).is_err());
        assert!(names(root.path()).is_empty());
    }

    #[test]
    fn name_that_appears_meanwhile_is_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(root.path(), false);
        let part = destination.create(&expected("a").path).unwrap();
        fs::write(root.path().join("a"), b"mine").unwrap();
        assert_eq!(destination.conflict(&expected("a").path), Some(Conflict::File));
        assert_eq!(part.finish(&expected("a")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(root.path().join("a")).unwrap(), b"mine");
        assert_eq!(names(root.path()), ["a"]);
    }

    #[test]
    fn force_replaces_files_but_not_directories() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), b"old").unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        let destination = open(root.path(), true);
        assert_eq!(destination.conflict(&expected("a").path), None);
        assert_eq!(destination.conflict(&expected("d").path), Some(Conflict::Other));
        let mut part = destination.create(&expected("a").path).unwrap();
        part.write_at(b"new", 0).unwrap();
        part.finish(&expected("a")).unwrap();
        assert_eq!(fs::read(root.path().join("a")).unwrap(), b"new");
        assert!(destination.create(&expected("d").path).unwrap().finish(&expected("d")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_lead_out() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("file"), root.path().join("file")).unwrap();
        let destination = open(root.path(), true);
        assert!(destination.create(&expected("link/a").path).is_err());
        assert!(destination.create_dir("link/d").is_err());
        // A link in the way of a file is replaced, not followed.
        destination.create(&expected("file").path).unwrap().finish(&expected("file")).unwrap();
        assert!(root.path().join("file").symlink_metadata().unwrap().is_file());
        assert!(names(outside.path()).is_empty());
    }
}
