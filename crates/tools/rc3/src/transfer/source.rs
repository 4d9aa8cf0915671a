//! A file being sent: read at the offsets the stream needs, hashed on the way, within the rate limit.

use std::{
    fs::File,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rc3_core::units::Rate;
use rc3_net::file::ReadAt;

use super::{
    destination::read_exact_at,
    error::TransferError,
    gaps::Gaps,
    tree::{Passing, Tree},
};

/// Fewest bytes of one read, however low the limit.
pub const READ_BYTES_MIN: usize = 16 << 10;

/// The parts of one file to send.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    gaps: Gaps,
    passing: Mutex<Passing>,
    throttle: Arc<Throttle>,
}

impl FileSource {
    /// Opens a file of `bytes` bytes, of which `gaps` will be sent.
    ///
    /// # Errors
    /// When a system call fails.
    pub fn open(path: &Path, bytes: u64, gaps: Gaps, throttle: Arc<Throttle>) -> io::Result<Self> {
        let passing = Mutex::new(Passing::new(Tree::new(bytes)));
        Ok(Self { file: File::open(path)?, gaps, passing, throttle })
    }

    /// BLAKE3 of a file of `bytes` bytes that is not sent.
    ///
    /// # Errors
    /// When it cannot be read, or became shorter.
    pub fn hash(path: &Path, bytes: u64) -> io::Result<blake3::Hash> {
        let file = File::open(path)?;
        Passing::new(Tree::new(bytes)).finish(|buf, offset| read_exact_at(&file, buf, offset))
    }

    /// Reads the parts that were not sent; returns the hash of the whole file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn finish(self) -> io::Result<blake3::Hash> {
        let mut passing = self.passing.into_inner().unwrap_or_else(PoisonError::into_inner);
        passing.finish(|buf, offset| read_exact_at(&self.file, buf, offset))
    }
}

impl ReadAt for FileSource {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some((at, room)) = self.gaps.locate(offset) else { return Ok(0) };
        let most = usize::try_from(room).unwrap_or(usize::MAX).min(self.throttle.read_bytes_max());
        let len = buf.len().min(most);
        let buf = &mut buf[..len];
        self.throttle.wait(len);
        let read = self.file.read_at(buf, at)?;
        let mut passing = self.passing.lock().unwrap_or_else(PoisonError::into_inner);
        passing.update(at, &buf[..read], |buf, offset| read_exact_at(&self.file, buf, offset))?;
        Ok(read)
    }
}

/// Keeps the mean rate of reads below a limit.
#[derive(Debug)]
pub struct Throttle {
    limit: Option<Rate>,
    started: Instant,
    bytes: Mutex<u64>,
}

impl Throttle {
    /// A limit that starts now.
    pub fn new(limit: Option<Rate>) -> Self {
        Self { limit, started: Instant::now(), bytes: Mutex::new(0) }
    }

    /// Bytes of one read: about a tenth of a second's worth, so that slow limits are smooth.
    fn read_bytes_max(&self) -> usize {
        let tenth = self.limit.map_or(u64::MAX, |rate| rate.bytes_in(Duration::from_millis(100)));
        usize::try_from(tenth).unwrap_or(usize::MAX).max(READ_BYTES_MIN)
    }

    /// Blocks until this many more bytes are allowed.
    pub fn wait(&self, bytes: usize) {
        let Some(rate) = self.limit else { return };
        let mut read = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let due = self.started + rate.time_for(*read);
        *read += bytes as u64;
        drop(read);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// The error of a file whose length was announced.
pub fn read_error(path: &Path, error: io::Error) -> TransferError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => TransferError::Shrunk(path.to_owned()),
        _ => TransferError::Read { path: path.to_owned(), error },
    }
}
