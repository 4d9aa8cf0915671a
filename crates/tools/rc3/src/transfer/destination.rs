//! The directory that receives the files.
//!
//! Invariants. *Confined*: all access goes through one directory handle that no name and no symbolic link leads out of.
//! *Nothing lost*: without permission to overwrite, an existing name is never replaced, not even one that appears
//! during the transfer, and no two entries of a transfer end in one file (`Claims`); incomplete files stay as a
//! [`Part`] unless [`Policy`] says otherwise. *Never wider*: at no moment has a file rights that the sender's file lacks
//! or the umask removes (`super::rights`); an incomplete one has 0600.

use std::{
    collections::HashSet,
    fs::{File, FileTimes},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
};

use cap_fs_ext::{
    FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsMaybeDirExt, OpenOptionsSyncExt,
};
use cap_std::{
    ambient_authority,
    fs::{Dir, DirBuilder, Metadata, OpenOptions},
};

use rc3_net::file::ReadAt;

use super::{
    attributes::{self, Preserve},
    claims::{Claims, file_id},
    expected::Expected,
    gaps::Gaps,
    holes,
    message::reason,
    part::{Names, Part},
    paths::{PART_SUFFIX, SafePath, TAG_LETTERS, directory_of},
    record::{self, RECORD_BYTES_MAX},
    rights,
    verdict::Verdict,
};
use crate::system;

/// How to handle files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Policy {
    /// What to do with files that exist with other content.
    pub existing: Existing,
    /// Take a file of the same size and modification time for the same, without a comparison.
    pub quick_check: bool,
    /// What to sync.
    pub fsync: Fsync,
    /// Delete incomplete files instead of keeping them for another run.
    pub discard_partial: bool,
    /// What to take over from the sender's files.
    pub preserve: Preserve,
}

/// What to do with files that exist with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Report them, and keep them as they are.
    #[default]
    Report,
    /// Replace them.
    Replace,
    /// Give the sent file another name, `NAME (1).EXT`.
    KeepBoth,
}

/// When files are written to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Fsync {
    /// When the system decides
    #[default]
    None,
    /// Each file before it gets its name
    File,
    /// Everything at the end
    End,
}

impl From<bool> for Fsync {
    /// Each file, or none.
    fn from(each: bool) -> Self {
        if each { Self::File } else { Self::None }
    }
}

/// A directory to receive into, and the files of one transfer in it. Clones share their state.
#[derive(Debug, Clone)]
pub struct Destination(pub(super) Arc<Inner>, pub(super) Claims);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) dir: Dir,
    pub(super) policy: Policy,
    /// Makes tags for parts whose usual name is taken.
    seed: [u8; 32],
    tags: AtomicU32,
    /// The bits that the umask leaves.
    allowed: u32,
    /// Records under this key come from this run.
    key: [u8; 32],
    parts: Mutex<Parts>,
    /// Files and directories that the system did not give all their attributes.
    bare: AtomicUsize,
}

/// The incomplete files, by part name.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// In use.
    pub(super) open: HashSet<PathBuf>,
    /// Kept for another run.
    pub(super) kept: HashSet<PathBuf>,
    pub(super) closed: bool,
}

impl Destination {
    /// Opens an existing directory, and checks that files can be written there. `seed` must be random and secret from
    /// anyone who could forge a record.
    ///
    /// # Errors
    /// When the directory does not exist or is not writable, or its disk is full.
    pub fn open(path: &Path, policy: Policy, seed: [u8; 32]) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        let key = blake3::derive_key("rc3 records of a run", &seed);
        let seed = blake3::derive_key("rc3 tags of a run", &seed);
        let tags = AtomicU32::new(0);
        let (parts, bare) = Default::default();
        let inner = Inner { dir, policy, seed, tags, allowed: 0, key, parts, bare };
        let allowed = inner.probe()?;
        if system::free_bytes(&inner.dir).is_some_and(|free| free == 0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(Self(Arc::new(Inner { allowed, ..inner }), Claims::default()))
    }

    /// The key of the records of this run.
    pub fn record_key(&self) -> &[u8; 32] {
        &self.0.key
    }

    /// How to handle files.
    pub fn policy(&self) -> Policy {
        self.0.policy
    }

    /// The same directory for another transfer, which may replace files of earlier ones if the policy allows.
    #[must_use]
    pub fn begin_transfer(&self) -> Self {
        Self(Arc::clone(&self.0), Claims::default())
    }

    /// Gives the file at `path` to this entry, if it has the content expected, whose data have this hash, and no other entry
    /// has it; else what becomes of the entry.
    pub(super) fn claim_same(
        &self,
        path: &SafePath,
        expected: &Expected,
        hash: blake3::Hash,
    ) -> Result<(), Verdict> {
        let compare = || {
            let file = self.0.open_existing(path.as_path(), OpenOptions::new().read(true))?;
            let metadata = Metadata::from_file(&file)?;
            let same = metadata.is_file()
                && metadata.len() == expected.bytes
                && holes::hash(&file, &expected.data())? == hash
                && holes::are_zeros(&file, &expected.holes, u64::MAX)?;
            io::Result::Ok((same, file_id(&metadata)))
        };
        match compare() {
            Ok((true, id)) if self.1.claim(id, path) => Ok(()),
            Ok((true, _)) => Err(Verdict::Shared),
            Ok((false, _)) => Err(Verdict::Conflict),
            Err(error) => Err(Verdict::Refused(reason(format!("cannot read what has its name: {error}")))),
        }
    }

    /// Gives a file that exists with the expected content the expected time, and removes permission bits that the
    /// sender's file lacks. Files of other users stay as they are.
    pub fn adopt(&self, path: &SafePath, expected: &Expected) {
        let Some(file) = self.0.open_ours(path.as_path(), false) else { return };
        self.0.set_xattrs(&file, expected);
        if let Some(mode) = expected.mode
            && !attributes::has_acl(&file, &expected.attributes, self.0.policy.preserve)
        {
            let _ = rights::limit(&file, mode);
        }
        let Some(time) = expected.modified else { return };
        if file.metadata().and_then(|metadata| metadata.modified()).ok() != Some(time) {
            let _ = file.set_times(FileTimes::new().set_modified(time));
        }
    }

    /// Creates a directory if it does not exist; returns whether it did not. Its parent must exist.
    ///
    /// # Errors
    /// When a file is in the way, a link leads out, or a system call fails.
    pub fn create_directory(&self, directory: &Expected) -> io::Result<bool> {
        let dir = &self.0.dir;
        let path = directory.path.as_path();
        match dir.create_dir_with(path, &directory_builder(directory.mode)) {
            Ok(()) => self.0.grant_directory(directory)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir(path) => {
                self.0.open_to_fill(directory);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        self.0.sync_name(path)?;
        Ok(true)
    }

    /// Sets a directory's time, and removes the bits that its owner needed only to fill it. One that existed keeps its
    /// other bits; a link to a directory stays as it is.
    ///
    /// # Errors
    /// When a system call fails on a new directory.
    pub fn finish_directory(&self, directory: &Expected, new: bool) -> io::Result<()> {
        let handle = match self.0.open_directory(directory) {
            Ok(handle) => handle,
            Err(error) => return if new { Err(error) } else { Ok(()) },
        };
        self.0.set_xattrs(&handle, directory);
        // Bits inherited from the parent directory are the receiver's choice: setgid, for example.
        let kept = if new { 0o7000 } else { 0o7077 };
        let narrowed = directory.mode.map_or(Ok(()), |mode| rights::narrow(&handle, mode | kept));
        if let Some(time) = directory.modified {
            let _ = handle.set_times(FileTimes::new().set_modified(time));
        }
        if new {
            narrowed?;
            self.0.set_acls(&handle, directory);
            if self.0.policy.fsync == Fsync::File {
                system::sync_directory(&handle)?;
            }
        }
        Ok(())
    }

    /// Puts everything on disk that the policy wants there at the end.
    ///
    /// # Errors
    /// When a system call fails.
    pub fn finish(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if self.0.policy.fsync == Fsync::End {
            rustix::fs::syncfs(self.0.dir.open(".")?)?;
        }
        Ok(())
    }

    /// Begins a file and removes the part of an earlier run.
    ///
    /// # Errors
    /// When a system call fails, or the destination is closed.
    pub fn create(&self, file: &Expected) -> io::Result<Part> {
        self.remove_leftover(file);
        let create = |names: &Names| {
            let handle = self.0.create(&names.part, 0o600)?;
            if self.0.take(&handle, &names.part) {
                Ok(handle)
            } else {
                Err(io::ErrorKind::AlreadyExists.into())
            }
        };
        match self.begin(file, Names::new(&file.path, &record::tag(file)), create) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.begin(file, Names::new(&file.path, &self.0.tag()), create)
            }
            begun => begun,
        }
    }

    /// Begins a part with the file that `open` finds, unless the destination is closed.
    fn begin(
        &self,
        file: &Expected,
        names: Names,
        open: impl FnOnce(&Names) -> io::Result<File>,
    ) -> io::Result<Part> {
        let mut parts = self.0.lock();
        if parts.closed {
            return Err(closed());
        }
        let handle = open(&names)?;
        parts.kept.remove(&names.part);
        parts.open.insert(names.part.clone());
        drop(parts);
        Ok(Part::new(self, handle, names, &file.path))
    }

    /// The part of an earlier run with its record, if no process uses it.
    pub fn resume(&self, file: &Expected) -> Option<(Part, Vec<u8>)> {
        let names = Names::new(&file.path, &record::tag(file));
        let is_free = |handle: &File| self.0.take(handle, &names.part) && has_one_name(handle);
        let handle = self.0.open_ours(&names.part, true).filter(is_free)?;
        rights::narrow(&handle, 0o600).ok()?;
        let mut written_down = Vec::new();
        let record = self.0.open_ours(&names.record, false).filter(has_one_name)?;
        record.take(RECORD_BYTES_MAX).read_to_end(&mut written_down).ok()?;
        Some((self.begin(file, names, |_| Ok(handle)).ok()?, written_down))
    }

    /// Removes the part of an earlier run, unless another process is writing it.
    pub fn remove_leftover(&self, file: &Expected) {
        let names = Names::new(&file.path, &record::tag(file));
        if self.0.open_ours(&names.part, true).is_some_and(|old| self.0.take(&old, &names.part)) {
            names.remove(&self.0.dir);
            self.0.lock().kept.remove(&names.part);
        }
    }

    /// Whether no part is in use.
    pub fn is_idle(&self) -> bool {
        self.0.lock().open.is_empty()
    }

    /// The number of incomplete files kept for another run.
    pub fn kept(&self) -> usize {
        self.0.lock().kept.len()
    }

    /// How many files and directories lack attributes since the last call, because the system did not take them.
    pub(super) fn take_bare(&self) -> usize {
        self.0.bare.swap(0, Relaxed)
    }

    /// The length and the hash of a file.
    pub(super) fn content(&self, path: &SafePath) -> io::Result<(u64, blake3::Hash)> {
        let file = self.0.open_existing(path.as_path(), OpenOptions::new().read(true))?;
        let bytes = file.metadata()?.len();
        Ok((bytes, holes::hash(&file, &Gaps::whole(bytes))?))
    }

    /// Accepts no more files, and deletes those in use if the policy keeps none.
    pub fn close(&self) {
        let mut parts = self.0.lock();
        parts.closed = true;
        if self.0.policy.discard_partial {
            parts.open.iter().for_each(|part| drop(self.0.dir.remove_file(part)));
        }
    }
}

impl Inner {
    /// Creates and removes a file; returns the permission bits that a new file may have.
    fn probe(&self) -> io::Result<u32> {
        let name = PathBuf::from(format!(".probe.{}{PART_SUFFIX}", self.tag()));
        let probe = self.create(&name, 0o777)?;
        let metadata = probe.metadata();
        self.dir.remove_file(&name)?;
        Ok(system::mode(&metadata?).map_or(0o777, |mode| mode & 0o777))
    }

    /// A new file for reading and writing, with this mode less the umask.
    pub(super) fn create(&self, name: &Path, mode: u32) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        Ok(self.dir.open_with(name, system::create_mode(&mut options, mode))?.into_std())
    }

    /// A tag that no part of this run has.
    pub(super) fn tag(&self) -> String {
        let number = self.tags.fetch_add(1, Relaxed);
        let hash = blake3::keyed_hash(&self.seed, &number.to_le_bytes());
        hash.to_hex().chars().take(TAG_LETTERS).collect()
    }

    /// Gives a complete file its rights. Without those of the sender's file it gets the defaults of the directory.
    pub(super) fn grant(&self, file: &File, expected: &Expected) -> io::Result<()> {
        match expected.mode {
            Some(mode) => rights::grant(file, mode & self.allowed),
            None => rights::set_mode(file, 0o666 & self.allowed),
        }
    }

    /// Gives a file or directory the extended attributes that this side wants. It must still be writable.
    pub(super) fn set_xattrs(&self, file: &File, expected: &Expected) {
        self.set(file, expected, Preserve { acls: false, ..self.policy.preserve });
    }

    /// Gives a new file or directory its ACL, if this side wants it, in place of its permission bits.
    pub(super) fn set_acls(&self, file: &File, expected: &Expected) {
        self.set(file, expected, Preserve { xattrs: false, ..self.policy.preserve });
    }

    fn set(&self, file: &File, expected: &Expected, preserve: Preserve) {
        if !attributes::set(file, &expected.attributes, preserve) {
            self.bare.fetch_add(1, Relaxed);
        }
    }

    /// Gives a new directory its rights, and its owner those to fill it.
    fn grant_directory(&self, directory: &Expected) -> io::Result<()> {
        match directory.mode {
            Some(mode) => rights::grant(&self.open_directory(directory)?, mode & self.allowed | 0o700),
            None => Ok(()),
        }
    }

    /// Gives back the bits that the owner needs to fill a directory, and that [`Destination::finish_directory`] took in
    /// an earlier transfer.
    fn open_to_fill(&self, directory: &Expected) {
        if let (Some(wanted), Ok(handle)) = (directory.mode, self.open_directory(directory)) {
            let Some(mode) = handle.metadata().ok().as_ref().and_then(system::mode) else { return };
            if mode & 0o700 == wanted & 0o700 && mode & 0o700 != 0o700 {
                // Another user's directory: creating files shows whether that is a problem.
                let _ = system::set_mode(&handle, mode | 0o700);
            }
        }
    }

    /// Opens a directory, but not by a link.
    fn open_directory(&self, directory: &Expected) -> io::Result<File> {
        // Not as `Dir`: permissions cannot be set with `O_PATH`.
        let opened =
            self.open_existing(directory.path.as_path(), OpenOptions::new().read(true).maybe_dir(true))?;
        if opened.metadata()?.is_dir() { Ok(opened) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// Every step under the lock leaves the sets consistent.
    pub(super) fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks an open part, if no other process has; whether it still has its name by then, and not the part of another.
    fn take(&self, part: &File, name: &Path) -> bool {
        let id = |metadata: io::Result<Metadata>| metadata.ok().as_ref().map(file_id);
        system::lock(part) && id(self.dir.symlink_metadata(name)) == id(Metadata::from_file(part))
    }

    /// Opens an existing file without following a link or blocking on a pipe.
    fn open_existing(&self, path: &Path, options: &mut OpenOptions) -> io::Result<File> {
        options.follow(FollowSymlinks::No).nonblock(true);
        Ok(self.dir.open_with(path, options)?.into_std())
    }

    /// Opens a file only if this user owns it: files that others put into a directory are not trusted.
    pub(super) fn open_ours(&self, path: &Path, write: bool) -> Option<File> {
        let file = self.open_existing(path, OpenOptions::new().read(true).write(write)).ok()?;
        let metadata = file.metadata().ok()?;
        (system::other_owner(&metadata).is_none() && metadata.is_file()).then_some(file)
    }

    /// A new name is durable once its directory has been synced, if the policy wants that.
    pub(super) fn sync_name(&self, path: &Path) -> io::Result<()> {
        if self.policy.fsync != Fsync::File {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        let directory = self.dir.open_with(directory_of(path), options.read(true).maybe_dir(true))?;
        system::sync_directory(&directory.into_std())
    }
}

/// A file with two names may be meant to be written by its other name.
pub(super) fn has_one_name(file: &File) -> bool {
    Metadata::from_file(file).is_ok_and(|metadata| metadata.nlink() == 1)
}

pub(super) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the transfer has ended")
}

fn directory_builder(mode: Option<u32>) -> DirBuilder {
    // Nothing for the group before [`rights::grant`]: its bits are also the mask of entries that it inherits.
    mode.map_or_else(DirBuilder::new, |mode| system::directory_builder(mode & 0o707 | 0o700))
}

/// Fills `buf` with the bytes from `offset` on; returns the rest of it if they end first.
///
/// # Errors
/// When they cannot be read.
pub fn fill_at<'b>(from: &impl ReadAt, mut buf: &'b mut [u8], mut offset: u64) -> io::Result<&'b mut [u8]> {
    while !buf.is_empty() {
        match from.read_at(buf, offset) {
            Ok(0) => break,
            Ok(read) => {
                offset += read as u64;
                buf = buf.get_mut(read..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buf)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::transfer::{gaps::Gaps, verdict::Fault};

    fn open(root: &Path, force: bool) -> Destination {
        let existing = if force { Existing::Replace } else { Existing::Report };
        open_with(root, Policy { existing, fsync: Fsync::File, ..Policy::default() })
    }

    fn open_with(root: &Path, policy: Policy) -> Destination {
        Destination::open(root, policy, [7; 32]).unwrap()
    }

    fn path(path: &str) -> SafePath {
        SafePath::parse(path.as_bytes()).unwrap()
    }

    fn expected(name: &str) -> Expected {
        let modified = Some(std::time::UNIX_EPOCH);
        Expected { mode: Some(0o755), modified, ..Expected::new(path(name), 5) }
    }

    fn directory(name: &str) -> Expected {
        Expected { mode: Some(0o755), ..Expected::new(path(name), 0) }
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
        assert!(destination.create_directory(&directory("d")).unwrap());
        assert!(!destination.create_directory(&directory("d")).unwrap());
        let expected = expected("d/a");
        let part = destination.create(&expected).unwrap();
        part.write_at(b"lo", 3).unwrap();
        part.write_at(b"hel", 0).unwrap();
        let part_name = format!(".a.{}.rc3-part", record::tag(&expected));
        assert_eq!(names(&root.path().join("d")), [part_name.as_str()]);
        assert!(SafePath::parse(part_name.as_bytes()).is_err(), "a peer may name {part_name}");
        let mut read_back = [0; 4];
        part.read_data(&Gaps::whole(100), &mut read_back, 1).unwrap();
        assert_eq!(&read_back, b"ello");
        // Zeros that were not stored.
        part.read_data(&Gaps::whole(100), &mut read_back, 2).unwrap();
        assert_eq!(&read_back, b"llo\0");
        part.write_down(b"record").unwrap();
        assert_eq!(names(&root.path().join("d")).len(), 2);
        part.finish(&expected).unwrap();
        assert_eq!(names(&root.path().join("d")), ["a"]);
        let path = root.path().join("d/a");
        assert_eq!(fs::read(&path).unwrap(), b"hello");
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), std::time::UNIX_EPOCH);
    }

    #[test]
    fn parts_with_a_record_wait_for_another_try_and_others_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(root.path(), false);
        drop(destination.create(&expected("a")).unwrap());
        assert!(names(root.path()).is_empty());
        let part = destination.create(&expected("a")).unwrap();
        part.write_at(b"hel", 0).unwrap();
        part.write_down(b"record").unwrap();
        assert!(destination.resume(&expected("a")).is_none(), "it is in use");
        // A second one at the same time gets a file of its own.
        let other = destination.create(&expected("a")).unwrap();
        assert_eq!(names(root.path()).len(), 3);
        drop(other);
        destination.close();
        drop(part);
        assert_eq!((names(root.path()).len(), destination.kept()), (2, 1));
        assert!(destination.create(&expected("b")).is_err(), "it is closed");
        drop(destination);

        let destination = open(root.path(), false);
        let (part, record) = destination.resume(&expected("a")).unwrap();
        assert_eq!(record, b"record");
        let mut read_back = [0; 3];
        part.read_data(&Gaps::whole(100), &mut read_back, 0).unwrap();
        assert_eq!(&read_back, b"hel");
        // Useless.
        part.discard();
        drop(part);
        assert!(names(root.path()).is_empty());
    }

    #[test]
    fn parts_are_deleted_where_the_policy_says_so() {
        let root = tempfile::tempdir().unwrap();
        let destination = open_with(root.path(), Policy { discard_partial: true, ..Policy::default() });
        let part = destination.create(&expected("a")).unwrap();
        part.write_down(b"record").unwrap();
        drop(part);
        assert!(names(root.path()).is_empty());
        // Also one that is still being written.
        let part = destination.create(&expected("a")).unwrap();
        assert_eq!(names(root.path()).len(), 1);
        destination.close();
        assert!(names(root.path()).is_empty());
        assert!(part.finish(&expected("a")).is_err());
        assert!(names(root.path()).is_empty());
    }

    /// Whatever an earlier run or another program has done to the part.
    #[test]
    fn parts_lose_bits_that_the_sender_has_not() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let part = open(root.path(), false).create(&expected("a")).unwrap();
        let name = root.path().join(&names(root.path())[0]);
        fs::set_permissions(&name, PermissionsExt::from_mode(0o6777)).unwrap();
        part.finish(&expected("a")).unwrap();
        assert_eq!(fs::metadata(root.path().join("a")).unwrap().permissions().mode() & 0o7777, 0o755);
    }

    #[test]
    fn longer_parts_than_the_file_are_cut() {
        let root = tempfile::tempdir().unwrap();
        let part = open(root.path(), false).create(&expected("a")).unwrap();
        part.write_at(b"hello, and more", 0).unwrap();
        part.finish(&expected("a")).unwrap();
        assert_eq!(fs::read(root.path().join("a")).unwrap(), b"hello");
    }

    #[test]
    fn name_that_appears_meanwhile_is_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(root.path(), false);
        let part = destination.create(&expected("a")).unwrap();
        fs::write(root.path().join("a"), b"mine").unwrap();
        assert!(matches!(part.finish(&expected("a")), Err(Fault::Settled(Verdict::Conflict))));
        assert_eq!(fs::read(root.path().join("a")).unwrap(), b"mine");
        drop(part);
        assert_eq!(names(root.path()), ["a"]);
    }

    /// As names that differ only in case, on a file system that ignores it.
    #[test]
    fn two_ways_to_write_one_name_do_not_replace_each_other() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(root.path(), true);
        fs::create_dir(root.path().join("d")).unwrap();
        std::os::unix::fs::symlink("d", root.path().join("D")).unwrap();
        destination.create(&expected("d/a")).unwrap().finish(&expected("d/a")).unwrap();
        let part = destination.create(&expected("D/a")).unwrap();
        assert!(matches!(part.finish(&expected("D/a")), Err(Fault::Settled(Verdict::Shared))));
        // Another transfer may, unless it keeps the file under its other name.
        let destination = destination.begin_transfer();
        destination.create(&expected("D/a")).unwrap().finish(&expected("D/a")).unwrap();
        let destination = destination.begin_transfer();
        let same = destination.claim_same(&path("d/a"), &expected("d/a"), blake3::hash(&[0; 5]));
        assert_eq!(same, Ok(()));
        let other = destination.claim_same(&path("D/a"), &expected("D/a"), blake3::hash(&[0; 5]));
        assert_eq!(other, Err(Verdict::Shared));
        let part = destination.create(&expected("D/a")).unwrap();
        assert!(matches!(part.finish(&expected("D/a")), Err(Fault::Settled(Verdict::Shared))));
    }

    #[test]
    fn force_replaces_files_but_not_directories() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), b"old").unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        let destination = open(root.path(), true);
        let part = destination.create(&expected("a")).unwrap();
        part.write_at(b"newer", 0).unwrap();
        part.finish(&expected("a")).unwrap();
        assert_eq!(fs::read(root.path().join("a")).unwrap(), b"newer");
        assert!(destination.create(&expected("d")).unwrap().finish(&expected("d")).is_err());
    }

    #[test]
    fn links_do_not_lead_out() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("file"), root.path().join("file")).unwrap();
        let destination = open(root.path(), true);
        assert!(destination.create(&expected("link/a")).is_err());
        assert!(destination.create_directory(&directory("link/d")).is_err());
        assert!(destination.create_directory(&directory("link")).is_err());
        assert!(destination.create_directory(&directory("file")).is_err());
        assert!(destination.finish_directory(&directory("link"), true).is_err());
        assert!(destination.claim_same(&path("file"), &expected("file"), blake3::hash(b"")).is_err());
        // A link in place of a file is replaced, not followed.
        destination.create(&expected("file")).unwrap().finish(&expected("file")).unwrap();
        assert!(root.path().join("file").symlink_metadata().unwrap().is_file());
        assert!(names(outside.path()).is_empty());
    }
    #[test]
    fn what_others_put_in_the_place_of_a_part_is_left_alone() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let destination = open(root.path(), false);
        let precious = root.path().join("precious");
        fs::write(&precious, b"precious").unwrap();
        let expected = expected("a");
        let names = Names::new(&expected.path, &record::tag(&expected));
        let [part, record, next] =
            [&names.part, &names.record, &names.next_record].map(|n| root.path().join(n));
        for plant in
            [&|| symlink("precious", &part) as io::Result<()>, &|| fs::hard_link(&precious, &part), &|| {
                rustix::fs::mkfifoat(rustix::fs::CWD, &part, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
                    .map_err(Into::into)
            }] as [&dyn Fn() -> io::Result<()>; 3]
        {
            plant().unwrap();
            fs::write(&record, b"record").unwrap();
            assert!(destination.resume(&expected).is_none());
            let started = destination.create(&expected).unwrap();
            started.write_at(b"hello", 0).unwrap();
            drop(started);
            let _ = fs::remove_file(&part);
        }
        fs::write(&part, b"part").unwrap();
        fs::write(&record, b"record").unwrap();
        symlink("precious", &next).unwrap();
        // Another process may remove it, and begin one of its own, before it is locked.
        let handle = fs::File::open(&part).unwrap();
        fs::rename(&part, root.path().join("old")).unwrap();
        fs::write(&part, b"of another").unwrap();
        assert!(!destination.0.take(&handle, &names.part));
        drop(handle);
        assert!(destination.0.take(&fs::File::open(&part).unwrap(), &names.part));
        fs::rename(root.path().join("old"), &part).unwrap();
        let (resumed, _) = destination.resume(&expected).unwrap();
        resumed.write_down(b"new record").unwrap();
        assert_eq!(fs::read(&record).unwrap(), b"new record");
        fs::remove_file(&record).unwrap();
        symlink("precious", &record).unwrap();
        drop(resumed);
        assert!(destination.resume(&expected).is_none(), "a record that is a link");
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }

    /// The state after a run is killed between the two steps of naming a file.
    #[test]
    fn second_names_of_complete_files_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(root.path(), false);
        let expected = expected("a");
        let names_of_a = Names::new(&expected.path, &record::tag(&expected));
        fs::write(root.path().join("a"), b"hello").unwrap();
        fs::hard_link(root.path().join("a"), root.path().join(&names_of_a.part)).unwrap();
        fs::write(root.path().join(&names_of_a.record), b"record").unwrap();
        destination.remove_leftover(&expected);
        assert_eq!(names(root.path()), ["a"]);
        assert_eq!(fs::read(root.path().join("a")).unwrap(), b"hello");
    }

    #[test]
    fn links_swapped_in_during_a_transfer_do_not_lead_out() {
        let (outside, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let destination = open(root.path(), true);
        destination.create_directory(&directory("d")).unwrap();
        let part = destination.create(&expected("d/a")).unwrap();
        part.write_at(b"hello", 0).unwrap();
        fs::rename(root.path().join("d"), root.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("d")).unwrap();
        assert!(part.write_down(b"record").is_err());
        assert!(part.finish(&expected("d/a")).is_err());
        assert!(destination.create(&expected("d/b")).is_err());
        assert!(names(outside.path()).is_empty());
    }
}
