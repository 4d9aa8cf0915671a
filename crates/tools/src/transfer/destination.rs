//! The directory files arrive in, and files that are not complete yet.
//!
//! Invariants. *Confined*: everything goes through one directory handle that no name and no symbolic link
//! leads out of. *All or nothing*: a file has its final name only once it is complete; before that it is
//! `.NAME.TAG.rc3-part` beside it, with a record of what is in place in `.NAME.TAG-record.rc3-part`. *Nothing
//! lost*: without leave to overwrite, an existing name is never replaced, not even one that appeared meanwhile.
//! *Tidy*: what is not complete when the destination closes is removed; until then a part that was
//! [kept](Part::keep) waits for another try. *Alone*: a part in use is locked, so no two runs write to it.

use std::{
    collections::HashSet,
    fs::{File, FileTimes},
    io::{self, Read, Write},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions},
};

use rc3_net::file::{ReadAt, WriteAt};

use super::{
    manifest::Expected,
    paths::{PART_SUFFIX, SafePath},
    record::{self, RECORD_BYTES_MAX},
};

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
    /// In use.
    names: HashSet<Names>,
    /// For another try.
    kept: HashSet<Names>,
    /// Whether there is any point in another try.
    keeping: bool,
    closed: bool,
}

/// The names of an incomplete file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Names {
    part: String,
    record: String,
    /// A record that is being written.
    next_record: String,
}

impl Names {
    fn new(path: &SafePath, tag: &str) -> Self {
        Self {
            part: path.part(tag),
            record: path.part(&format!("{tag}-record")),
            next_record: path.part(&format!("{tag}-record-next")),
        }
    }

    /// What is not there any more, or cannot be removed, is nobody's business.
    fn remove(&self, dir: &Dir) {
        for name in [&self.part, &self.record, &self.next_record] {
            let _ = dir.remove_file(name);
        }
    }
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

    /// Begins a file, making the directories above it. What an earlier run left of it is removed.
    ///
    /// # Errors
    /// When the system refuses, or the destination is closed.
    pub fn create(&self, file: &Expected) -> io::Result<Part> {
        if let Some(parent) = file.path.parent() {
            self.create_dir(parent)?;
        }
        let names = Names::new(&file.path, &record::tag(file));
        let old = self.open_part(&names);
        match old {
            Some(old) if lock(&old) => names.remove(&self.0.dir),
            None => {}
            // Somebody else is at it.
            Some(_) => {}
        }
        match self.begin(file, names) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.begin(file, Names::new(&file.path, &self.0.tag))
            }
            begun => begun,
        }
    }

    fn begin(&self, file: &Expected, names: Names) -> io::Result<Part> {
        let mut parts = self.0.lock();
        if parts.closed {
            return Err(closed());
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let handle = self.0.dir.open_with(&names.part, &options)?.into_std();
        lock(&handle);
        parts.names.insert(names.clone());
        drop(parts);
        Ok(Part::new(self, handle, names, &file.path))
    }

    /// What an earlier run left of a file, with its record, if nobody is at it.
    pub fn resume(&self, file: &Expected) -> Option<(Part, Vec<u8>)> {
        let names = Names::new(&file.path, &record::tag(file));
        let handle = self.open_part(&names)?;
        if !lock(&handle) || !is_ours(&self.0.dir, &names.record) {
            return None;
        }
        let mut written_down = Vec::new();
        let record = self.0.dir.open(&names.record).ok()?;
        record.take(RECORD_BYTES_MAX).read_to_end(&mut written_down).ok()?;
        let mut parts = self.0.lock();
        if parts.closed {
            return None;
        }
        parts.kept.remove(&names);
        parts.names.insert(names.clone());
        drop(parts);
        Some((Part::new(self, handle, names, &file.path), written_down))
    }

    fn open_part(&self, names: &Names) -> Option<File> {
        if !is_ours(&self.0.dir, &names.part) {
            return None;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        Some(self.0.dir.open_with(&names.part, &options).ok()?.into_std())
    }

    /// Removes the parts that were kept and that nobody has taken up again.
    pub fn remove_kept(&self) {
        let mut parts = self.0.lock();
        parts.kept.drain().for_each(|names| names.remove(&self.0.dir));
    }

    /// Whether no part is in use.
    pub fn is_idle(&self) -> bool {
        self.0.lock().names.is_empty()
    }

    /// Whether parts that are dropped from now on may wait for another try.
    pub fn set_keeping(&self, keeping: bool) {
        self.0.lock().keeping = keeping;
        if !keeping {
            self.remove_kept();
        }
    }

    /// Removes all incomplete files and takes no more.
    pub fn close(&self) {
        let mut parts = self.0.lock();
        parts.closed = true;
        parts.remove_all(&self.0.dir);
    }
}

impl Parts {
    fn remove_all(&mut self, dir: &Dir) {
        self.names.drain().chain(self.kept.drain()).for_each(|names| names.remove(dir));
    }
}

impl Inner {
    /// Every step under the lock leaves the sets whole.
    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let parts = self.parts.get_mut().unwrap_or_else(PoisonError::into_inner);
        parts.remove_all(&self.dir);
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the transfer has ended")
}

/// A file on its way. Dropped before [`Self::finish`], it is removed, or kept for another try.
#[derive(Debug)]
pub struct Part {
    destination: Destination,
    file: File,
    names: Names,
    path: SafePath,
    keep: AtomicBool,
}

impl Part {
    fn new(destination: &Destination, file: File, names: Names, path: &SafePath) -> Self {
        let keep = AtomicBool::new(false);
        Self { destination: destination.clone(), file, names, path: path.clone(), keep }
    }

    /// Writes at an offset, anywhere.
    ///
    /// # Errors
    /// When the system refuses, the disk being full for example.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Fills `buf` with what is at an offset.
    ///
    /// # Errors
    /// When it cannot be read back.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        read_exact_at(&self.file, buf, offset)
    }

    /// Replaces the record of what is in place, and keeps the part for another try from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write_down(&self, record: &[u8]) -> io::Result<()> {
        let inner = &self.destination.0;
        // Under the lock, so that nothing appears in a destination that is closed.
        let parts = inner.lock();
        if !parts.names.contains(&self.names) {
            return Err(closed());
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        inner.dir.open_with(&self.names.next_record, &options)?.write_all(record)?;
        inner.dir.rename(&self.names.next_record, &inner.dir, &self.names.record)?;
        drop(parts);
        self.keep();
        Ok(())
    }

    /// Dropped, it waits for another try, if there [may be one](Destination::set_keeping), until the destination
    /// closes.
    pub fn keep(&self) {
        self.keep.store(true, Relaxed);
    }

    /// Dropped, it is removed.
    pub fn discard(&self) {
        self.keep.store(false, Relaxed);
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
            return Err(closed());
        }
        self.discard();
        if inner.policy.force {
            inner.dir.rename(&self.names.part, &inner.dir, self.path.as_str())?;
        } else {
            rename_without_replacing(&inner.dir, &self.names.part, self.path.as_str())?;
        }
        parts.names.remove(&self.names);
        self.names.remove(&inner.dir);
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
        let mut parts = inner.lock();
        if !parts.names.remove(&self.names) {
            return;
        }
        if parts.keeping && self.keep.load(Relaxed) {
            parts.kept.insert(self.names.clone());
        } else {
            self.names.remove(&inner.dir);
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

/// Fills `buf` with what a file has at `offset`.
///
/// # Errors
/// When the file ends first ([`io::ErrorKind::UnexpectedEof`]), or what the system says.
pub fn read_exact_at(file: &File, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match ReadAt::read_at(file, buf, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                offset += read as u64;
                buf = buf.get_mut(read..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes a file for ourselves, until it is closed; whether nobody else has it.
#[cfg(unix)]
fn lock(file: &File) -> bool {
    use rustix::{
        fs::{FlockOperation, flock},
        io::Errno,
    };
    // File systems without locks have at least the one process.
    flock(file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

#[cfg(not(unix))]
fn lock(_: &File) -> bool {
    true
}

/// Whether a name is a file of the user who runs this: what others left in a directory is not believed.
fn is_ours(dir: &Dir, name: &str) -> bool {
    let Ok(metadata) = dir.symlink_metadata(name) else { return false };
    #[cfg(unix)]
    if cap_std::fs::MetadataExt::uid(&metadata) != rustix::process::geteuid().as_raw() {
        return false;
    }
    metadata.is_file()
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
        let part = destination.create(&expected).unwrap();
        part.write_at(b"lo", 3).unwrap();
        part.write_at(b"hel", 0).unwrap();
        let part_name = format!(".a.{}.rc3-part", record::tag(&expected));
        assert_eq!(names(&root.path().join("d")), [part_name.as_str()]);
        assert!(is_part(&part_name));
        let mut read_back = [0; 4];
        part.read_exact_at(&mut read_back, 1).unwrap();
        assert_eq!(&read_back, b"ello");
        assert_eq!(part.read_exact_at(&mut read_back, 2).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        part.write_down(b"record").unwrap();
        assert_eq!(names(&root.path().join("d")).len(), 2);
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
        drop(destination.create(&expected("a")).unwrap());
        assert!(names(root.path()).is_empty());
        let part = destination.create(&expected("a")).unwrap();
        destination.close();
        assert!(names(root.path()).is_empty());
        assert!(part.finish(&expected("a")).is_err());
        assert!(destination.create(&expected("b")).is_err());
        assert!(names(root.path()).is_empty());
    }

    #[test]
    fn kept_parts_wait_for_another_try_and_are_taken_up_by_one() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(root.path(), false);
        destination.set_keeping(true);
        let part = destination.create(&expected("a")).unwrap();
        part.write_at(b"hel", 0).unwrap();
        part.write_down(b"record").unwrap();
        assert!(destination.resume(&expected("a")).is_none(), "it is in use");
        // A second one at the same time gets a file of its own.
        let other = destination.create(&expected("a")).unwrap();
        assert_eq!(names(root.path()).len(), 3);
        drop((part, other));
        let (part, record) = destination.resume(&expected("a")).unwrap();
        assert_eq!(record, b"record");
        destination.remove_kept();
        let mut read_back = [0; 3];
        part.read_exact_at(&mut read_back, 0).unwrap();
        assert_eq!(&read_back, b"hel");
        part.keep();
        drop(part);
        assert_eq!(names(root.path()).len(), 2);
        destination.set_keeping(false);
        assert!(names(root.path()).is_empty());
    }

    #[test]
    fn name_that_appears_meanwhile_is_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(root.path(), false);
        let part = destination.create(&expected("a")).unwrap();
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
        let part = destination.create(&expected("a")).unwrap();
        part.write_at(b"new", 0).unwrap();
        part.finish(&expected("a")).unwrap();
        assert_eq!(fs::read(root.path().join("a")).unwrap(), b"new");
        assert!(destination.create(&expected("d")).unwrap().finish(&expected("d")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_lead_out() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("file"), root.path().join("file")).unwrap();
        let destination = open(root.path(), true);
        assert!(destination.create(&expected("link/a")).is_err());
        assert!(destination.create_dir("link/d").is_err());
        // A link in the way of a file is replaced, not followed.
        destination.create(&expected("file")).unwrap().finish(&expected("file")).unwrap();
        assert!(root.path().join("file").symlink_metadata().unwrap().is_file());
        assert!(names(outside.path()).is_empty());
    }
}
