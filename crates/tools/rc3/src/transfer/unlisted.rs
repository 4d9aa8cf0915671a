//! Files whose length says nothing about their content, as in /proc and /sys: read whole when they are found.
//!
//! Such files have no blocks. Neither have some others, whose content then turns out to be as long as announced.

use std::{
    fs::{File, Metadata},
    io::{self, Read},
    path::Path,
};

use bytes::Bytes;
use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::{ambient_authority, fs::OpenOptions};

use crate::system;

/// Longer files without blocks are taken for sparse ones.
const PROBED_BYTES_MAX: u64 = 64 << 10;
/// Most bytes of all such files together, which stay in memory.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// The content of a file that is not as long as its metadata says; at most `room` bytes. `None` for any other file.
///
/// # Errors
/// When it cannot be read without waiting, or is longer.
pub fn content(path: &Path, metadata: &Metadata, room: usize) -> io::Result<Option<Bytes>> {
    if metadata.len() > PROBED_BYTES_MAX || system::stored_bytes(metadata) != Some(0) {
        return Ok(None);
    }
    let file = open(path)?;
    let mut content = Vec::new();
    (&file).take(room as u64 + 1).read_to_end(&mut content)?;
    // A file that grew meanwhile: its stamp shows it.
    if content.len() as u64 == metadata.len() || file.metadata()?.len() != metadata.len() {
        return Ok(None);
    }
    if content.len() > room {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too long for a file without a length"));
    }
    Ok(Some(content.into()))
}

/// Opens a file to read it. A pipe in its place does not block.
///
/// # Errors
/// When a system call fails.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    Ok(cap_std::fs::File::open_ambient_with(path, &options, ambient_authority())?.into_std())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;

    fn read(path: &Path) -> io::Result<Option<Bytes>> {
        content(path, &fs::metadata(path).unwrap(), 1 << 20)
    }

    #[test]
    fn content_beyond_the_length_is_read_and_other_files_are_left() {
        let cpus = read(Path::new("/proc/cpuinfo")).unwrap().expect("content");
        assert!(!cpus.is_empty());
        assert!(content(Path::new("/proc/cpuinfo"), &fs::metadata("/proc/cpuinfo").unwrap(), 10).is_err());
        let root = tempfile::tempdir().unwrap();
        for bytes in [0, 1, 5000] {
            let path = root.path().join("f");
            fs::write(&path, vec![7; bytes]).unwrap();
            assert_eq!(read(&path).unwrap(), None);
            fs::write(&path, b"").unwrap();
            File::options().write(true).open(&path).unwrap().set_len(bytes as u64).unwrap();
            assert_eq!(read(&path).unwrap(), None);
        }
    }
}
