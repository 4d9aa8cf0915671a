//! Whether a file is still the one that was announced.
//!
//! Reading a file takes time, and a program may write to it meanwhile. Two equal stamps, one from before the first read
//! and one from after the last, say that it did not: each write changes a time of the file. Exceptions are writes through
//! a memory mapping, whose time the system sets later, and several writes in one tick of the clock: see
//! [`Stamp::is_settled`].

use std::{
    fs::Metadata,
    time::{Duration, SystemTime},
};

use crate::system;

/// Longest tick of the clock that dates files.
pub const TICK: Duration = Duration::from_millis(20);

/// What changes with a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Another file under the same name has another.
    file: (u64, u64),
    bytes: u64,
    modified: Option<SystemTime>,
    /// When content or properties last changed: seconds and nanoseconds. Programs cannot set it.
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        let (file, changed) = system::inode(metadata);
        Self { file, bytes: metadata.len(), modified: metadata.modified().ok(), changed }
    }

    /// Device and inode: the same for all names of a file. Zeros if the system does not report them.
    pub fn file(&self) -> (u64, u64) {
        self.file
    }

    /// Whether a write from now on changes the stamp. One in the tick of the last change would not.
    pub fn is_settled(&self) -> bool {
        let since = self.modified.map(|modified| SystemTime::now().duration_since(modified));
        // A time in the future is not from this clock.
        !matches!(since, Some(Ok(since)) if since < TICK)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_change_shows_even_if_the_time_is_set_back() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        fs::write(&path, b"one").unwrap();
        let time = SystemTime::now() - Duration::from_secs(100);
        let date = || fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        let stamp = || Stamp::of(&fs::metadata(&path).unwrap());
        date();
        let before = stamp();
        assert!(before.is_settled() && before == stamp());
        std::thread::sleep(TICK);
        fs::write(&path, b"two").unwrap();
        assert!(!stamp().is_settled());
        date();
        assert_ne!(stamp(), before, "the same length and time of modification");
        let before = stamp();
        fs::write(root.path().join("g"), b"two").unwrap();
        fs::rename(root.path().join("g"), &path).unwrap();
        date();
        assert_ne!(stamp(), before, "another file under the same name");
    }
}
