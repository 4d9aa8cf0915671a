//! Systems other than Unix: see `unix` for what each function does.
#![cfg_attr(unix, allow(dead_code, unreachable_pub, reason = "compiled for the test below only"))]
#![allow(missing_docs, clippy::missing_errors_doc, reason = "the same as in `unix`")]

use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io,
    path::Path,
    time::Duration,
};

use cap_std::fs::{Dir, DirBuilder, OpenOptions};

use super::Stop;

/// Windows reports malformed names as [`io::ErrorKind::InvalidFilename`].
pub const NAME_FAULTS: &[i32] = &[];
/// `ERROR_TOO_MANY_OPEN_FILES`.
pub const DESCRIPTOR_FAULTS: &[i32] = &[4];

/// Names are text: [`Rules::Windows`](crate::transfer::paths::Rules::Windows) refuses others.
pub fn os_str(bytes: &[u8]) -> &OsStr {
    OsStr::new(std::str::from_utf8(bytes).unwrap_or_default())
}

pub fn mode(_: &Metadata) -> Option<u32> {
    None
}

pub fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

pub fn other_owner(_: &Metadata) -> Option<u32> {
    None
}

pub fn has_own_group(_: &Metadata) -> bool {
    true
}

pub fn inode(_: &Metadata) -> ((u64, u64), (i64, i64)) {
    Default::default()
}

pub fn names(_: &Metadata) -> u64 {
    1
}

pub fn stored_bytes(_: &Metadata) -> Option<u64> {
    None
}

pub fn create_mode(options: &mut OpenOptions, _: u32) -> &mut OpenOptions {
    options
}

pub fn directory_builder(_: u32) -> DirBuilder {
    DirBuilder::new()
}

pub fn make_private_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Receivers refuse links before: their targets would need checks of their own.
pub fn make_link(_: &Dir, _: &OsStr, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn free_bytes(_: &Dir) -> Option<u64> {
    None
}

pub fn sync_directory(_: &File) -> io::Result<()> {
    Ok(())
}

pub fn lock(_: &File) -> bool {
    true
}

pub fn wait_readable<S>(_: &[S], _: Duration) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn stderr_metadata() -> io::Result<Metadata> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn terminated() -> impl Future<Output = Stop> {
    std::future::pending()
}

pub fn raise_descriptor_limit() {}

pub fn close_stdout() -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::{super::unix, *};

    #[test]
    fn names_that_are_text_are_the_same_as_on_unix() {
        for text in ["a", "d/ä 日本.txt", ""] {
            assert_eq!(os_str(text.as_bytes()), unix::os_str(text.as_bytes()));
        }
        assert_eq!(os_str(b"latin-\xe9"), "");
    }
}
