//! Ranges of a file without data: they read as zeros, and are neither sent nor stored.

use std::{fs::Metadata, path::Path};

use rc3_core::units::Span;

use super::gaps::GAPS_MAX;
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

#[cfg(target_os = "linux")]
fn find(path: &Path, len: u64) -> Vec<Span> {
    use rustix::{
        fs::{SeekFrom, seek},
        io::Errno,
    };
    /// More holes are not searched: a hole costs two system calls.
    const SEARCHED_MAX: usize = 100_000;
    let mut holes = Vec::new();
    // Errors appear when the file is sent.
    let Ok(file) = std::fs::File::open(path) else { return holes };
    let mut at = 0;
    for _ in 0..SEARCHED_MAX {
        let Ok(start) = seek(&file, SeekFrom::Hole(at)) else { break };
        let end = match seek(&file, SeekFrom::Data(start)) {
            Ok(end) => end.min(len),
            // No data follows.
            Err(Errno::NXIO) => len,
            Err(_) => break,
        };
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
    use std::{fs::File, os::unix::fs::FileExt};

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
