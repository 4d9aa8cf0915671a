//! The file: valid lines are read, and one process at a time writes it as a whole.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use super::entry::{PathEntry, PathKey};

/// Most bytes read: more than [`ENTRIES_MAX`] lines.
const BYTES_MAX: u64 = 256 << 10;
/// Most entries; the one with the oldest evidence is dropped.
pub(super) const ENTRIES_MAX: usize = 1024;
const HEADER: &str =
    "# The memory of paths of rc3. You may delete this file at any time. Format: rc3_net::paths\n";

/// The entries by key.
pub(super) type PathEntries = HashMap<PathKey, PathEntry>;

/// The entries of `text` that are valid at `now`.
pub(super) fn parse(text: &str, now: u64, age_max: Duration) -> PathEntries {
    let mut table = PathEntries::new();
    for (key, entry) in text.lines().filter_map(PathEntry::parse) {
        if let Some(entry) = entry.good(now, age_max) {
            table.entry(key).or_default().merge(entry);
        }
    }
    trim(&mut table);
    table
}

/// The entries of the file; empty if it does not exist or is invalid.
pub(super) fn read(path: &Path, now: u64, age_max: Duration) -> PathEntries {
    // Reading a pipe would never end.
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let mut bytes = Vec::new();
    let read = if is_file {
        File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes))
    } else {
        Ok(0)
    };
    if let Err(error) = read {
        tracing::debug!(path = %path.display(), %error, "cannot read the memory of paths");
    }
    parse(&String::from_utf8_lossy(&bytes), now, age_max)
}

/// Merges `new` into the file, and returns the result.
///
/// # Errors
/// When it cannot be written, or other processes keep it locked. The file is then unchanged.
pub(super) fn merge(path: &Path, new: &PathEntries, now: u64, age_max: Duration) -> io::Result<PathEntries> {
    // Not the link, but its target.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        make(directory)?;
    }
    let _lock = lock(&beside(path, "lock"))?;
    let mut table = read(path, now, age_max);
    add(&mut table, new);
    let mut lines: Vec<_> = table.iter().collect();
    lines.sort_unstable_by_key(|(key, _)| **key);
    let text = lines.iter().fold(HEADER.to_owned(), |text, (key, entry)| text + &entry.line(**key) + "\n");
    replace(path, text.as_bytes())?;
    Ok(table)
}

/// Adds `new` to the table, which keeps its bound.
pub(super) fn add(table: &mut PathEntries, new: &PathEntries) {
    for (&key, &entry) in new {
        table.entry(key).or_default().merge(entry);
    }
    trim(table);
}

fn trim(table: &mut PathEntries) {
    if table.len() > ENTRIES_MAX {
        let mut by_age: Vec<(u64, PathKey)> = table.iter().map(|(&key, entry)| (entry.at(), key)).collect();
        by_age.sort_unstable();
        for (_, key) in &by_age[..by_age.len() - ENTRIES_MAX] {
            table.remove(key);
        }
    }
}

/// Another file in the same directory.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(what);
    path.with_file_name(name)
}

/// Atomically replaces the old file: readers see one of them as a whole.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let new = beside(path, "new");
    // Left by a process that was killed: the lock excludes other writers.
    let _ = fs::remove_file(&new);
    private(OpenOptions::new().write(true).create_new(true)).open(&new)?.write_all(contents)?;
    fs::rename(&new, path)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn make(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    // As required by the XDG base directories.
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)
}

#[cfg(not(unix))]
fn make(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)
}

/// The write lock, held as long as the file is open.
#[cfg(unix)]
fn lock(path: &Path) -> io::Result<File> {
    use rustix::fs::{FlockOperation, flock};
    /// Longest wait: another process is quick, or hangs.
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    let file = private(OpenOptions::new().write(true).create(true).truncate(false)).open(path)?;
    for _ in 0..TRIES {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another process keeps it locked"))
}

/// Without locks the last writer wins; what it writes is complete.
#[cfg(not(unix))]
fn lock(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::entry::tests::entries, *};

    const DAY: Duration = Duration::from_secs(86_400);
    const NOW: u64 = 1_790_000_000;

    fn table(lines: &[&str]) -> PathEntries {
        parse(&lines.join("\n"), NOW, DAY)
    }

    #[test]
    fn what_is_merged_is_read_again_and_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/rc3/paths");
        let new = table(&["192.0.2.7 from=10.0.0.3 at=1790000000 score=-6 rate=93000000 rtt_us=20100"]);
        assert_eq!(merge(&path, &new, NOW, DAY).unwrap(), new);
        assert_eq!(read(&path, NOW, DAY), new);
        let other = table(&["192.0.2.8 from=10.0.0.3 at=1790000000 score=6"]);
        assert_eq!(merge(&path, &other, NOW, DAY).unwrap().len(), 2);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(read(&path, NOW + DAY.as_secs(), DAY), PathEntries::new(), "too old");
    }

    #[test]
    fn what_is_no_file_of_ours_is_as_none() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path(), NOW, DAY), PathEntries::new(), "a directory");
        assert_eq!(read(&directory.path().join("none"), NOW, DAY), PathEntries::new());
        let path = directory.path().join("paths");
        fs::write(&path, [0xff; 4096]).unwrap();
        assert_eq!(read(&path, NOW, DAY), PathEntries::new());
        let new = table(&["192.0.2.8 from=10.0.0.3 at=1790000000 score=6"]);
        assert_eq!(merge(&path, &new, NOW, DAY).unwrap(), new, "it is replaced");
        assert!(merge(&path.join("below"), &new, NOW, DAY).is_err(), "reported without a panic");
    }

    #[test]
    fn the_oldest_of_too_many_give_way() {
        let line = |n: usize| {
            format!("10.{}.{}.1 from=10.0.0.3 at={} score=1", n / 256, n % 256, NOW - 5000 + n as u64)
        };
        let text: Vec<String> = (0..ENTRIES_MAX + 10).map(line).collect();
        let table = parse(&text.join("\n"), NOW, DAY);
        assert_eq!(table.len(), ENTRIES_MAX);
        assert_eq!(table.values().map(PathEntry::at).min(), Some(NOW - 4990));
    }

    #[test]
    fn a_writer_that_was_killed_is_in_nobodys_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("paths");
        fs::write(beside(&path, "new"), "half a li").unwrap();
        fs::write(beside(&path, "lock"), "").unwrap();
        let new = table(&["192.0.2.8 from=10.0.0.3 at=1790000000 score=6"]);
        assert_eq!(merge(&path, &new, NOW, DAY).unwrap(), new);
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_that_others_keep_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("paths");
        let held = lock(&beside(&path, "lock")).unwrap();
        let new = table(&["192.0.2.8 from=10.0.0.3 at=1790000000 score=6"]);
        let refused = merge(&path, &new, NOW, DAY).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::WouldBlock));
        drop(held);
        assert_eq!(merge(&path, &new, NOW, DAY).unwrap(), new);
    }

    proptest! {
        /// Whatever happens to the file, whole lines count, and only written lines are used.
        #[test]
        fn a_broken_file_has_what_is_whole(
            all in proptest::collection::vec(entries(), 1..8),
            junk in proptest::collection::vec(any::<u8>(), 0..64),
            place: proptest::sample::Index,
        ) {
            let whole: String = all.iter().map(|(key, entry)| entry.line(*key) + "\n").collect();
            let starts: Vec<usize> = [0].into_iter().chain(whole.match_indices('\n').map(|(at, _)| at + 1)).collect();
            let at = starts[place.index(starts.len())];
            let mut bytes = whole.clone().into_bytes();
            // Between two lines.
            bytes.splice(at..at, junk.iter().copied().chain([b'\n']));
            let mut most = PathEntries::new();
            let good = all.iter().filter_map(|(key, entry)| Some((*key, entry.good(NOW, DAY)?)));
            good.for_each(|(key, entry)| most.entry(key).or_default().merge(entry));
            let text = String::from_utf8_lossy(&bytes);
            let junk_lines = String::from_utf8_lossy(&junk).into_owned();
            prop_assume!(junk_lines.lines().all(|line| PathEntry::parse(line).is_none()));
            prop_assert_eq!(parse(&text, NOW, DAY), most);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let table = parse(&String::from_utf8_lossy(&bytes), NOW, DAY);
            prop_assert!(table.len() <= ENTRIES_MAX);
        }
    }
}
