//! A file being sent: read at the offsets the stream needs, hashed on the way, within the rate limit.
//!
//! Invariant: the hash of a file exists only if the file was the announced one before the first read and after the last. It
//! is announced once every byte was read, before all has arrived; bytes that are read again later are those that were hashed,
//! or reading fails.

use std::{
    fs::File,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rc3_core::units::Rate;
use rc3_net::file::ReadAt;
use tokio::{sync::oneshot, time::Instant};

use super::{
    destination::fill_at,
    gaps::Gaps,
    holes,
    manifest::SourceEntry,
    stamp::{Stamp, TICK},
    tree::{Passing, Tree},
    unlisted,
    verdict::Omission,
};

/// Fewest bytes of one read, however low the limit.
pub const READ_BYTES_MIN: usize = 16 << 10;
/// Most time of the limit that a pause leaves for later.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);

/// Where the bytes are.
#[derive(Debug)]
enum Origin {
    File(File, Stamp),
    Held(Bytes),
}

impl Origin {
    fn open(entry: &SourceEntry) -> Result<Self, Omission> {
        if let Some(held) = &entry.held {
            return Ok(Self::Held(held.clone()));
        }
        let origin = Self::File(unlisted::open(&entry.path)?, entry.stamp);
        if !entry.stamp.is_settled() {
            std::thread::sleep(TICK);
        }
        origin.check()?;
        Ok(origin)
    }

    /// Whether it is still the announced file. A change is an early end: see [`Omission`].
    fn check(&self) -> io::Result<()> {
        match self {
            Self::File(file, stamp) if Stamp::of(&file.metadata()?) != *stamp => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Self::File(..) | Self::Held(_) => Ok(()),
        }
    }

    fn read_data(&self, data: &Gaps, buf: &mut [u8], offset: u64) -> io::Result<()> {
        data.pieces(offset, buf.len(), |place, piece| {
            let is_filled = fill_at(self, &mut buf[piece], place)?.is_empty();
            if is_filled { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        })
    }
}

impl ReadAt for Origin {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::File(file, _) => file.read_at(buf, offset),
            Self::Held(held) => held.read_at(buf, offset),
        }
    }
}

/// The parts of one file to send.
#[derive(Debug)]
pub struct FileSource {
    origin: Origin,
    /// Where its data are in the file.
    data: Gaps,
    /// The ranges of the data to send.
    gaps: Gaps,
    hashing: Mutex<Hashing>,
    throttle: Arc<Throttle>,
}

/// The hash of a file that is being read.
#[derive(Debug)]
struct Hashing {
    passing: Passing,
    /// Who waits for it.
    waiting: Option<oneshot::Sender<blake3::Hash>>,
    announced: bool,
}

impl FileSource {
    /// Opens a file, of whose data `gaps` will be sent. May block for a tick of the clock.
    ///
    /// # Errors
    /// See [`Omission`].
    pub fn open(entry: &SourceEntry, gaps: Gaps, throttle: Arc<Throttle>) -> Result<Self, Omission> {
        let data = entry.data();
        let passing = Passing::new(Tree::new(data.len()));
        let hashing = Mutex::new(Hashing { passing, waiting: None, announced: false });
        Ok(Self { origin: Origin::open(entry)?, data, gaps, hashing, throttle })
    }

    /// The hash of all data, as soon as every byte was read.
    pub fn hash_once_read(&self) -> oneshot::Receiver<blake3::Hash> {
        let (sender, receiver) = oneshot::channel();
        self.hashing.lock().unwrap_or_else(PoisonError::into_inner).waiting = Some(sender);
        receiver
    }

    /// Bytes of the data were read.
    fn on_read(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut hashing = self.hashing.lock().unwrap_or_else(PoisonError::into_inner);
        if hashing.announced {
            return self.origin.check();
        }
        hashing.passing.update(at, bytes, |buf, offset| self.origin.read_data(&self.data, buf, offset))?;
        if hashing.waiting.is_some()
            && let Some(hash) = hashing.passing.tree().root()
        {
            self.origin.check()?;
            // The stream may have ended meanwhile.
            hashing.announced = hashing.waiting.take().is_some_and(|waiting| waiting.send(hash).is_ok());
        }
        Ok(())
    }

    /// BLAKE3 of the data that the file has now, whatever was announced, except the holes.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn hash(entry: &SourceEntry) -> io::Result<blake3::Hash> {
        match &entry.held {
            Some(held) => Ok(blake3::hash(held)),
            None if entry.holes().is_empty() => {
                Ok(blake3::Hasher::new().update_reader(unlisted::open(&entry.path)?)?.finalize())
            }
            None => holes::hash(&unlisted::open(&entry.path)?, &entry.data()),
        }
    }

    /// Reads all that is to be sent: so many bytes.
    ///
    /// # Errors
    /// See [`Omission`].
    pub fn read(&self, len: u64) -> Result<Bytes, Omission> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let is_whole = fill_at(self, &mut bytes, 0)?.is_empty();
        if is_whole { Ok(bytes.into()) } else { Err(Omission::Changed) }
    }

    /// Reads the parts that were not sent; returns the hash of all data.
    ///
    /// # Errors
    /// See [`Omission`].
    pub fn finish(self) -> Result<blake3::Hash, Omission> {
        let mut hashing = self.hashing.into_inner().unwrap_or_else(PoisonError::into_inner);
        let hash = hashing.passing.finish(|buf, offset| self.origin.read_data(&self.data, buf, offset))?;
        if !hashing.announced {
            self.origin.check()?;
        }
        Ok(hash)
    }
}

impl ReadAt for FileSource {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some((at, room)) = self.gaps.locate(offset) else { return Ok(0) };
        let Some((place, contiguous)) = self.data.locate(at) else { return Ok(0) };
        let most =
            usize::try_from(room.min(contiguous)).unwrap_or(usize::MAX).min(self.throttle.read_bytes_max());
        let len = buf.len().min(most);
        let buf = &mut buf[..len];
        std::thread::sleep(self.throttle.pause(len));
        let read = self.origin.read_at(buf, place)?;
        self.on_read(at, &buf[..read])?;
        Ok(read)
    }
}

/// Keeps the mean rate of reads below a limit. Of what a pause left unused it catches up a second's
/// worth.
#[derive(Debug)]
pub struct Throttle {
    limit: Option<Rate>,
    /// When the limit allows the next byte.
    due: Mutex<Instant>,
}

impl Throttle {
    /// A limit that starts now.
    pub fn new(limit: Option<Rate>) -> Self {
        Self { limit, due: Mutex::new(Instant::now()) }
    }

    /// Bytes of one read: about a tenth of a second's worth, so that slow limits are smooth.
    fn read_bytes_max(&self) -> usize {
        let tenth = self.limit.map_or(u64::MAX, |rate| rate.bytes_in(Duration::from_millis(100)));
        usize::try_from(tenth).unwrap_or(usize::MAX).max(READ_BYTES_MIN)
    }

    /// The limit.
    pub fn limit(&self) -> Option<Rate> {
        self.limit
    }

    /// Time until this many more bytes are allowed, which then count.
    pub fn pause(&self, bytes: usize) -> Duration {
        let Some(rate) = self.limit else { return Duration::ZERO };
        let now = Instant::now();
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = now.checked_sub(CATCH_UP_MAX).map_or(*due, |earliest| earliest.max(*due));
        *due = begin + rate.time_for(bytes as u64);
        begin.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::advance;

    use super::*;
    use crate::transfer::manifest::{Found, Selection};

    #[tokio::test(start_paused = true)]
    async fn a_limit_catches_up_a_second_at_most_after_an_outage() {
        let throttle = Throttle::new(Rate::from_bits_per_second(8_000));
        let second = || throttle.pause(1000);
        let of = Duration::from_secs;
        assert_eq!([second(), second(), second()], [of(0), of(1), of(2)]);
        let half = Duration::from_millis(500);
        advance(of(3) + half).await;
        assert_eq!([second(), second()], [of(0), half], "what was late is caught up");
        advance(of(1800)).await;
        assert_eq!([second(), second(), second()], [of(0), of(0), of(1)]);
    }

    #[test]
    fn a_hash_is_known_once_all_was_read_and_what_changes_then_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let content: Vec<u8> = (0..700_000_u32).map(|at| (at >> 3) as u8).collect();
        fs::write(&path, &content).unwrap();
        let found = Found::scan(std::slice::from_ref(&path), &Selection::default()).unwrap();
        let len = content.len() as u64;
        let open =
            || FileSource::open(&found.entries[0], Gaps::whole(len), Arc::new(Throttle::new(None))).unwrap();
        let source = open();
        let mut hash = source.hash_once_read();
        let mut buf = vec![0; 350_000];
        assert_eq!(source.read_at(&mut buf, 350_000).unwrap(), buf.len());
        assert!(hash.try_recv().is_err(), "half of it is not read");
        assert_eq!(source.read_at(&mut buf, 0).unwrap(), buf.len());
        assert_eq!(hash.try_recv(), Ok(blake3::hash(&content)));
        assert_eq!(source.read_at(&mut buf, 0).unwrap(), buf.len(), "again, unchanged");

        fs::write(&path, &content[..350_000]).unwrap();
        let error = source.read_at(&mut buf, 0).unwrap_err();
        assert_eq!(Omission::from(error), Omission::Changed);
        assert_eq!(source.finish(), Ok(blake3::hash(&content)), "if all arrived without another read");
        assert!(
            FileSource::open(&found.entries[0], Gaps::whole(len), Arc::new(Throttle::new(None))).is_err()
        );
    }
}
