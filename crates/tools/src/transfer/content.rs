//! The content of a file on its way into its place: written where it belongs, hashed as it passes, and written
//! down now and then, so that a later run can go on with it.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rc3_core::units::Span;
use rc3_net::file::WriteAt;

use super::{
    destination::{Destination, Part},
    gaps::Gaps,
    manifest::Expected,
    record::{self, Known},
    tree::{GROUP, Passing, Tree},
};

/// Smaller files are sent again rather than written down.
pub const RESUMED_BYTES_MIN: u64 = 8 << 20;
/// Between two records of one file.
const RECORD_EVERY: Duration = Duration::from_millis(500);

/// A file on its way.
#[derive(Debug)]
pub struct Content {
    part: Part,
    file: Expected,
    gaps: Gaps,
    progress: Mutex<Progress>,
    arrived: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Progress {
    passing: Passing,
    recorded: Instant,
}

impl Content {
    /// A new file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn create(destination: &Destination, file: &Expected, arrived: Arc<AtomicU64>) -> io::Result<Self> {
        let part = destination.create(file)?;
        Ok(Self::new(part, file.clone(), Gaps::whole(file.bytes), Tree::new(file.bytes), arrived))
    }

    /// The file as an earlier run left it, if it left anything worth it.
    pub fn resume(destination: &Destination, file: &Expected, arrived: Arc<AtomicU64>) -> Option<Self> {
        if file.bytes < RESUMED_BYTES_MIN {
            return None;
        }
        let (part, written_down) = destination.resume(file)?;
        let tree = match record::read(file, &written_down)? {
            Known::Hashed(tree) => tree,
            Known::Written(tree) => hash_again(&part, &tree, file.bytes).ok()?,
        };
        let hashed = tree.hashed();
        let gaps = Gaps::from_spans(hashed.gaps(Span::new(0, file.bytes)));
        part.keep();
        Some(Self::new(part, file.clone(), gaps, tree, arrived))
    }

    fn new(part: Part, file: Expected, gaps: Gaps, tree: Tree, arrived: Arc<AtomicU64>) -> Self {
        let progress = Mutex::new(Progress { passing: Passing::new(tree), recorded: Instant::now() });
        Self { part, file, gaps, progress, arrived }
    }

    /// What still has to come.
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Reads back what is not hashed yet; the part, and the hash of the whole.
    ///
    /// # Errors
    /// When it cannot be read back.
    pub fn complete(self) -> io::Result<(Part, blake3::Hash)> {
        let progress = self.progress.into_inner().unwrap_or_else(PoisonError::into_inner);
        let hash = progress.passing.finish(|buf, offset| self.part.read_exact_at(buf, offset))?;
        Ok((self.part, hash))
    }

    /// It is of no use to anybody.
    pub fn discard(&self) {
        self.part.discard();
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriteAt for Content {
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let Some((at, room)) = self.gaps.locate(offset) else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "more than was missing"));
            };
            let (now, later) = bytes.split_at(usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len()));
            self.part.write_at(now, at)?;
            self.arrived.fetch_add(now.len() as u64, Relaxed);
            let mut progress = self.progress();
            progress.passing.update(at, now, |buf, offset| self.part.read_exact_at(buf, offset))?;
            if self.file.bytes >= RESUMED_BYTES_MIN && progress.recorded.elapsed() >= RECORD_EVERY {
                progress.recorded = Instant::now();
                self.part.write_down(&record::write(&self.file, progress.passing.tree()))?;
            }
            offset += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }
}

/// The same tree, from what is on the disk.
fn hash_again(part: &Part, known: &Tree, bytes: u64) -> io::Result<Tree> {
    let mut tree = Tree::new(bytes);
    let mut buf = Vec::new();
    for span in known.hashed().iter() {
        for group in span.start / GROUP..span.end.div_ceil(GROUP) {
            let span = tree.span(group);
            buf.resize(span.len() as usize, 0);
            part.read_exact_at(&mut buf, span.start)?;
            let mut hasher = tree.hasher(group);
            tree.insert(group, hasher.update(&buf));
        }
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            destination::Policy,
            paths::{Rules, SafePath},
        },
        *,
    };

    fn file(bytes: u64) -> Expected {
        let path = SafePath::parse("f", Rules::HERE).unwrap();
        Expected { path, bytes, executable: false, modified: None }
    }

    fn open(root: &tempfile::TempDir) -> Destination {
        Destination::open(root.path(), Policy::default(), "0".to_owned()).unwrap()
    }

    #[test]
    fn pieces_in_any_order_become_the_file_and_its_hash() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(&root);
        let arrived = Arc::<AtomicU64>::default();
        for order in [[0, 2, 4, 6, 8], [8, 6, 4, 2, 0], [0, 8, 2, 4, 6]] {
            let content = Content::create(&destination, &file(10), Arc::clone(&arrived)).unwrap();
            for offset in order {
                content.write_all_at(&b"0123456789"[offset as usize..][..2], offset).unwrap();
            }
            assert!(content.write_all_at(b"x", 10).is_err());
            let (part, hash) = content.complete().unwrap();
            assert_eq!(hash, blake3::hash(b"0123456789"));
            drop(part);
            assert!(std::fs::read_dir(root.path()).unwrap().next().is_none());
        }
        assert_eq!(arrived.load(Relaxed), 30);
    }

    #[test]
    fn what_was_written_down_need_not_come_again() {
        let root = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..RESUMED_BYTES_MIN + 5).map(|at| (at % 251) as u8).collect();
        let (file, arrived) = (file(bytes.len() as u64), Arc::<AtomicU64>::default());
        let destination = open(&root);
        destination.set_keeping(true);
        let content = Content::create(&destination, &file, Arc::clone(&arrived)).unwrap();
        assert!(Content::resume(&open(&root), &file, Arc::clone(&arrived)).is_none(), "it is in use");
        let (head, tail) = (3 * GROUP as usize + 9, bytes.len() - 2 * GROUP as usize);
        content.write_all_at(&bytes[tail..], tail as u64).unwrap();
        content.progress().recorded = Instant::now() - 2 * RECORD_EVERY;
        content.write_all_at(&bytes[..head], 0).unwrap();
        // As if killed: nothing is tidied up.
        std::mem::forget(destination);
        drop(content);

        let content = Content::resume(&open(&root), &file, arrived).unwrap();
        let tail = (tail as u64).next_multiple_of(GROUP);
        assert_eq!(content.gaps().said(), [(3 * GROUP, tail)]);
        let missing = &bytes[3 * GROUP as usize..tail as usize];
        content.write_all_at(missing, 0).unwrap();
        let (_, hash) = content.complete().unwrap();
        assert_eq!(hash, blake3::hash(&bytes));
    }
}
