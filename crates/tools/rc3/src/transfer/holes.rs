//! Ranges of a file without data: they read as zeros, and are neither sent nor hashed nor stored.

use std::{
    fs::{File, Metadata},
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use rc3_core::units::Span;

use super::{
    destination::fill_at,
    gaps::{GAPS_MAX, Gaps},
};
use crate::system;

/// Shorter holes are sent as zeros.
const HOLE_BYTES_MIN: u64 = 64 << 10;

/// The holes of a file, largest [`GAPS_MAX`] at most; none if the system does not report them.
pub fn of(path: &Path, metadata: &Metadata) -> Vec<(u64, u64)> {
    let has_holes = system::stored_bytes(metadata)
        .is_some_and(|stored| stored.saturating_add(HOLE_BYTES_MIN) <= metadata.len());
    let mut holes = if has_holes { find(path, metadata.len()) } else { Vec::new() };
    if holes.len() > GAPS_MAX {
        holes.sort_by_key(|hole| std::cmp::Reverse(hole.len()));
        holes.truncate(GAPS_MAX);
        holes.sort_by_key(|hole| hole.start);
    }
    holes.into_iter().map(|hole| (hole.start, hole.end)).collect()
}

/// BLAKE3 of these ranges of a file back to back, as far as it has them.
///
/// # Errors
/// When it cannot be read.
pub fn hash(file: &File, data: &Gaps) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    for span in data.spans() {
        let mut reader = file;
        reader.seek(SeekFrom::Start(span.start))?;
        hasher.update_reader(reader.take(span.len()))?;
    }
    Ok(hasher.finalize())
}

/// Whether a file has only zeros in these ranges, found by reading at most so many bytes: where the system knows the
/// holes, none.
///
/// # Errors
/// When it cannot be read.
pub fn are_zeros(file: &File, holes: &Gaps, mut read_max: u64) -> io::Result<bool> {
    let mut buf = vec![0; 64 << 10];
    for hole in holes.spans() {
        let mut at = hole.start;
        while let Some(start) = data_from(file, at, hole.end) {
            let end = hole.end.min(start + buf.len() as u64);
            let buf = &mut buf[..(end - start) as usize];
            read_max = match read_max.checked_sub(buf.len() as u64) {
                Some(left) => left,
                None => return Ok(false),
            };
            fill_at(file, buf, start)?.fill(0);
            if buf.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            at = end;
        }
    }
    Ok(true)
}

/// The first byte at or after `at` that may be data, if it is below `end`.
#[cfg(target_os = "linux")]
fn data_from(file: &File, at: u64, end: u64) -> Option<u64> {
    use rustix::{
        fs::{SeekFrom, seek},
        io::Errno,
    };
    match seek(file, SeekFrom::Data(at)) {
        Ok(start) => Some(start),
        // No data follows.
        Err(Errno::NXIO) => None,
        Err(_) => Some(at),
    }
    .filter(|&start| start < end)
}

#[cfg(not(target_os = "linux"))]
fn data_from(_: &File, at: u64, end: u64) -> Option<u64> {
    (at < end).then_some(at)
}

/// The holes of at least [`HOLE_BYTES_MIN`].
#[cfg(target_os = "linux")]
fn find(path: &Path, len: u64) -> Vec<Span> {
    use rustix::fs::{SeekFrom, seek};
    /// More holes are not searched: a hole costs two system calls.
    const SEARCHED_MAX: usize = 100_000;
    let mut holes = Vec::new();
    // Errors appear when the file is sent.
    let Ok(file) = File::open(path) else { return holes };
    let mut at = 0;
    for _ in 0..SEARCHED_MAX {
        let Ok(start) = seek(&file, SeekFrom::Hole(at)) else { break };
        let end = data_from(&file, start, len).unwrap_or(len);
        if end.saturating_sub(start) >= HOLE_BYTES_MIN {
            holes.push(Span::new(start, end));
        }
        if end >= len {
            break;
        }
        at = end;
    }
    holes
}

#[cfg(not(target_os = "linux"))]
fn find(_: &Path, _: u64) -> Vec<Span> {
    Vec::new()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn holes_are_found_wherever_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(10 << 20).unwrap();
        let found = || of(&path, &path.metadata().unwrap());
        assert_eq!(found(), [(0, 10 << 20)]);
        file.write_all_at(&[7; 4096], 4 << 20).unwrap();
        // On the boundaries of the file system's blocks.
        assert_eq!(found(), [(0, 4 << 20), ((4 << 20) + 4096, 10 << 20)]);
        std::fs::write(&path, vec![7; 10 << 20]).unwrap();
        assert_eq!(found(), []);
    }
}
