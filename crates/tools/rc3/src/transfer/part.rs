//! An incomplete file.
//!
//! Invariants. *All or nothing*: a file gets its final name only when it is complete; before that it is
//! `.NAME.TAG.rc3-part` in the same directory, and `.NAME.TAG-record.rc3-part` records what is in place. *Exclusive*: a
//! part in use is locked, so no two runs write to it. *Worth keeping*: a part outlives its run only with a record.

use std::{
    fs::{File, FileTimes},
    io::{self, Write},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use cap_std::fs::{Dir, Metadata};
use rc3_net::file::WriteAt;

use super::{
    claims::file_id,
    destination::{Destination, Existing, Fsync, Inner, closed, fill_at, has_one_name},
    expected::Expected,
    gaps::Gaps,
    holes,
    paths::{NEXT_RECORD, RECORD, SafePath},
    verdict::{Fault, Verdict},
};
use crate::system;

/// Bytes of a block of common file systems.
const BLOCK: usize = 4096;

/// The names of an incomplete file.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) part: PathBuf,
    pub(super) record: PathBuf,
    /// A record that is being written.
    pub(super) next_record: PathBuf,
}

impl Names {
    pub(super) fn new(path: &SafePath, tag: &str) -> Self {
        Self {
            part: path.part(tag, ""),
            record: path.part(tag, RECORD),
            next_record: path.part(tag, NEXT_RECORD),
        }
    }

    /// Errors are ignored: the file may be gone or not removable.
    pub(super) fn remove(&self, dir: &Dir) {
        for name in [&self.part, &self.record, &self.next_record] {
            let _ = dir.remove_file(name);
        }
    }
}

/// An arriving file. Dropped before [`Self::finish`], it stays for another run if it has a record; otherwise it is
/// removed.
#[derive(Debug)]
pub struct Part {
    pub(super) destination: Destination,
    file: File,
    names: Names,
    path: SafePath,
    keep: AtomicBool,
    /// It has its final name, or is useless.
    over: AtomicBool,
}

impl Part {
    pub(super) fn new(destination: &Destination, file: File, names: Names, path: &SafePath) -> Self {
        let (keep, over) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { destination: destination.clone(), file, names, path: path.clone(), keep, over }
    }

    /// Writes at an offset, anywhere.
    ///
    /// # Errors
    /// When a system call fails, for example because the disk is full.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Writes at an offset that was not written before: blocks of zeros need no space.
    ///
    /// # Errors
    /// See [`Self::write_at`].
    pub fn write_new_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (mut from, mut at) = (0, 0);
        while at < bytes.len() {
            // To the end of the file system's block.
            let block = BLOCK - ((offset + at as u64) % BLOCK as u64) as usize;
            let end = (at + block).min(bytes.len());
            if bytes[at..end].iter().all(|&byte| byte == 0) {
                self.write_at(&bytes[from..at], offset + from as u64)?;
                from = end;
            }
            at = end;
        }
        self.write_at(&bytes[from..], offset + from as u64)
    }

    /// Fills `buf` with the bytes at an offset of the data; those that were not written are zeros.
    ///
    /// # Errors
    /// When it cannot be read back.
    pub fn read_data(&self, data: &Gaps, buf: &mut [u8], offset: u64) -> io::Result<()> {
        data.pieces(offset, buf.len(), |place, piece| {
            fill_at(&self.file, &mut buf[piece], place)?.fill(0);
            Ok(())
        })
    }

    /// Replaces the record of what is in place. From now on the part is kept for another run, if the policy keeps any.
    ///
    /// # Errors
    /// When a system call fails.
    pub fn write_down(&self, record: &[u8]) -> io::Result<()> {
        if self.destination.0.policy.discard_partial {
            return Ok(());
        }
        // A full disk has no room for another record, but the previous one already has space.
        self.replace_record(record).or_else(|error| self.overwrite_record(record).ok_or(error))?;
        self.keep();
        Ok(())
    }

    fn replace_record(&self, record: &[u8]) -> io::Result<()> {
        let Inner { dir, .. } = &*self.destination.0;
        let next = &self.names.next_record;
        // Removes whatever is there, without following it.
        let _ = dir.remove_file(next);
        let written = (self.destination.0)
            .create(next, 0o600)
            .and_then(|mut file| file.write_all(record))
            .and_then(|()| dir.rename(next, dir, &self.names.record));
        if written.is_err() {
            let _ = dir.remove_file(next);
        }
        written
    }

    /// A torn record is rejected on reading: see [`super::record`].
    fn overwrite_record(&self, record: &[u8]) -> Option<()> {
        let file = self.destination.0.open_ours(&self.names.record, true).filter(has_one_name)?;
        file.write_all_at(record, 0).ok()?;
        file.set_len(record.len() as u64).ok()
    }

    /// There is a record.
    pub fn keep(&self) {
        self.keep.store(true, Relaxed);
    }

    /// Marks it as useless, so that dropping removes it.
    pub fn discard(&self) {
        self.keep.store(false, Relaxed);
        self.over.store(true, Relaxed);
    }

    /// Whether it has its final name or is marked as useless.
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Whether it has only zeros in these ranges. Where the system does not know, only as much is read as it stores.
    pub(super) fn has_holes(&self, holes: &Gaps) -> io::Result<bool> {
        let stored = system::stored_bytes(&self.file.metadata()?);
        holes::are_zeros(&self.file, holes, stored.unwrap_or(u64::MAX))
    }

    /// Sets the file's length, mode, time and final name.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn finish(&self, expected: &Expected) -> Result<(), Fault> {
        let Inner { dir, policy, .. } = &*self.destination.0;
        // A part of an earlier run may be longer than the verified content; zeros at the end may be missing.
        if self.file.metadata()?.len() != expected.bytes {
            self.file.set_len(expected.bytes)?;
        }
        self.destination.0.set_xattrs(&self.file, expected);
        self.destination.0.grant(&self.file, expected)?;
        self.destination.0.set_acls(&self.file, expected);
        if let Some(time) = expected.modified {
            // Not every file system can store every time; the content matters more.
            let _ = self.file.set_times(FileTimes::new().set_modified(time));
        }
        if policy.fsync == Fsync::File {
            self.file.sync_all()?;
        }
        // Under the lock, so that no file gets its name after the destination is closed.
        let mut parts = self.destination.0.lock();
        if parts.closed {
            return Err(closed().into());
        }
        let (target, claims) = (self.path.as_path(), &self.destination.1);
        if policy.existing != Existing::Replace {
            rename_without_replacing(dir, &self.names.part, &self.path)?;
        } else if claims.may_replace(dir, &self.path) {
            dir.rename(&self.names.part, dir, target)?;
        } else {
            return Err(Fault::Settled(Verdict::Shared));
        }
        claims.place(Metadata::from_file(&self.file).ok().as_ref().map(file_id), &self.path);
        parts.open.remove(&self.names.part);
        drop(parts);
        self.over.store(true, Relaxed);
        if self.keep.load(Relaxed) {
            self.names.remove(dir);
        }
        Ok(self.destination.0.sync_name(target)?)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let inner = &self.destination.0;
        let mut parts = inner.lock();
        if !parts.open.remove(&self.names.part) {
            return;
        }
        if self.keep.load(Relaxed) {
            parts.kept.insert(self.names.part.clone());
        } else {
            self.names.remove(&inner.dir);
        }
    }
}

/// A hard link fails if the name is taken, a rename does not. File systems without hard links get a check and a rename.
fn rename_without_replacing(dir: &Dir, from: &PathBuf, to: &SafePath) -> io::Result<()> {
    let to = to.as_path();
    match dir.hard_link(from, dir, to) {
        Ok(()) => dir.remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if dir.symlink_metadata(to).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => dir.rename(from, dir, to),
    }
}
