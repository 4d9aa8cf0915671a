//! The content of an arriving file: written at its offset, hashed on arrival, and recorded at intervals so that a later
//! run can resume it.

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
    destination::Destination,
    expected::Expected,
    gaps::Gaps,
    part::Part,
    record,
    tree::{Passing, Tree},
    verdict::{Fault, Verdict},
};

/// Smaller files are not recorded but sent again.
pub const RESUMED_BYTES_MIN: u64 = 1 << 20;
/// Bytes between two records of one file.
const RECORD_EVERY: Duration = Duration::from_millis(200);

/// An arriving file. Dropping it before it has its final name records it once more.
#[derive(Debug)]
pub struct Content {
    part: Part,
    file: Expected,
    /// Where its data are in the file. All other offsets are those of the data.
    data: Gaps,
    /// Not in place: what a stream brings.
    missing: Gaps,
    /// Whether nothing was written before.
    new: bool,
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
    /// When a system call fails.
    pub fn create(destination: &Destination, file: &Expected, arrived: Arc<AtomicU64>) -> io::Result<Self> {
        let part = destination.create(file)?;
        let mut content = Self::new(part, file, Tree::new(file.data().len()), arrived);
        content.new = true;
        if file.bytes >= RESUMED_BYTES_MIN {
            // Record now, so that the record has space when the disk is full.
            content.write_down(&mut content.progress())?;
        }
        Ok(content)
    }

    /// The file from an earlier run, if its record is usable.
    pub fn resume(destination: &Destination, file: &Expected, arrived: Arc<AtomicU64>) -> Option<Self> {
        if file.bytes < RESUMED_BYTES_MIN {
            return None;
        }
        let (part, written_down) = destination.resume(file)?;
        let (mut tree, is_ours) = record::read(file, &written_down, destination.record_key())?;
        if !part.has_holes(&file.holes).is_ok_and(|has| has) {
            return None;
        }
        if !is_ours {
            tree = verified(&part, &file.data(), &tree);
        }
        part.keep();
        Some(Self::new(part, file, tree, arrived))
    }

    fn new(part: Part, file: &Expected, tree: Tree, arrived: Arc<AtomicU64>) -> Self {
        let data = file.data();
        let missing = Gaps::from_spans(tree.hashed().gaps(Span::new(0, data.len())));
        let progress = Mutex::new(Progress { passing: Passing::new(tree), recorded: Instant::now() });
        Self { part, file: file.clone(), data, missing, new: false, progress, arrived }
    }

    /// The ranges of the data that a stream brings.
    pub fn missing(&self) -> &Gaps {
        &self.missing
    }

    /// Length of the file; of a pipe so far.
    pub fn bytes(&self) -> u64 {
        self.file.bytes
    }

    /// Writes the next bytes of a pipe.
    ///
    /// # Errors
    /// When a system call fails.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.part.write_at(bytes, self.file.bytes)?;
        self.file.bytes += bytes.len() as u64;
        self.arrived.fetch_add(bytes.len() as u64, Relaxed);
        Ok(())
    }

    /// Reads back what is not hashed yet; returns the hash of the data.
    ///
    /// # Errors
    /// When it cannot be read back.
    pub fn complete(&mut self) -> io::Result<blake3::Hash> {
        let (part, data) = (&self.part, &self.data);
        let progress = self.progress.get_mut().unwrap_or_else(PoisonError::into_inner);
        progress.passing.finish(|buf, offset| part.read_data(data, buf, offset))
    }

    /// Gives the file its name, or finds the same content there. `hash` is that of the content.
    ///
    /// # Errors
    /// See [`Fault`]. The part is kept after an error of the system only.
    pub fn place(self, hash: blake3::Hash) -> Result<(), Fault> {
        let placed = self.part.finish(&self.file);
        if let Err(Fault::Settled(Verdict::Conflict | Verdict::Shared)) = placed {
            // No later run would complete it.
            self.part.discard();
        }
        match placed {
            Err(Fault::Settled(Verdict::Conflict)) => {
                let existing = self.part.destination.claim_same(&self.file.path, &self.file, hash);
                existing.map_err(Fault::Settled)
            }
            placed => placed,
        }
    }

    /// The part is useless: delete it on drop.
    pub fn discard(self) {
        self.part.discard();
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_down(&self, progress: &mut Progress) -> io::Result<()> {
        progress.recorded = Instant::now();
        let key = self.part.destination.record_key();
        self.part.write_down(&record::write(&self.file, progress.passing.tree(), key))
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        if self.part.is_over() {
            return;
        }
        let mut progress = self.progress();
        if progress.passing.tree().nodes().next().is_none() {
            // Without a hashed group there is nothing to resume.
            self.part.discard();
        } else if self.file.bytes >= RESUMED_BYTES_MIN {
            let _ = self.write_down(&mut progress);
        }
    }
}

impl WriteAt for Content {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (part, data) = (&self.part, &self.data);
        self.missing.pieces(offset, bytes.len(), |at, now| {
            let now = &bytes[now];
            data.pieces(at, now.len(), |place, piece| {
                let piece = &now[piece];
                if self.new { part.write_new_at(piece, place) } else { part.write_at(piece, place) }
            })?;
            self.arrived.fetch_add(now.len() as u64, Relaxed);
            let mut progress = self.progress();
            progress.passing.update(at, now, |buf, offset| part.read_data(data, buf, offset))?;
            if self.file.bytes >= RESUMED_BYTES_MIN && progress.recorded.elapsed() >= RECORD_EVERY {
                self.write_down(&mut progress)?;
            }
            Ok(())
        })
    }
}

/// The part of a tree that matches the data on disk.
fn verified(part: &Part, data: &Gaps, claimed: &Tree) -> Tree {
    let (mut tree, mut buf) = (Tree::new(data.len()), Vec::new());
    for node in claimed.nodes() {
        let mut found = Tree::new(data.len());
        let read = claimed.groups_of(node).try_for_each(|group| {
            let span = found.span(group);
            buf.resize(span.len() as usize, 0);
            part.read_data(data, &mut buf, span.start)?;
            let mut hasher = found.hasher(group);
            found.insert(group, hasher.update(&buf));
            io::Result::Ok(())
        });
        if read.is_ok() && found.nodes().eq([node]) {
            tree.restore(node);
        }
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::{
        super::{destination::Policy, paths::SafePath, tree::GROUP},
        *,
    };

    fn file(bytes: u64) -> Expected {
        Expected::new(SafePath::parse(b"f").unwrap(), bytes)
    }

    /// As another run does.
    fn open(root: &tempfile::TempDir, run: u8) -> Destination {
        Destination::open(root.path(), Policy::default(), [run; 32]).unwrap()
    }

    #[test]
    fn pieces_in_any_order_become_the_file_and_its_hash() {
        let root = tempfile::tempdir().unwrap();
        let destination = open(&root, 0);
        let arrived = Arc::<AtomicU64>::default();
        for order in [[0, 2, 4, 6, 8], [8, 6, 4, 2, 0], [0, 8, 2, 4, 6]] {
            let mut content = Content::create(&destination, &file(10), Arc::clone(&arrived)).unwrap();
            for offset in order {
                content.write_all_at(&b"0123456789"[offset as usize..][..2], offset).unwrap();
            }
            assert!(content.write_all_at(b"x", 10).is_err());
            assert_eq!(content.complete().unwrap(), blake3::hash(b"0123456789"));
            drop(content);
            assert!(std::fs::read_dir(root.path()).unwrap().next().is_none());
        }
        assert_eq!(arrived.load(Relaxed), 30);
    }

    #[test]
    fn zeros_and_holes_take_no_space_in_whatever_pieces_they_come() {
        use std::os::unix::fs::MetadataExt;
        let root = tempfile::tempdir().unwrap();
        let destination = open(&root, 0);
        let mut bytes = vec![0; 10 << 20];
        bytes[5 << 20..][..5000].fill(7);
        let mut sparse = file(bytes.len() as u64);
        sparse.holes = Gaps::parse(&[(0, 1 << 20), (9 << 20, 10 << 20)], sparse.bytes).unwrap();
        for piece in [1000, 4096, 10_000, 1 << 20] {
            let mut content = Content::create(&destination, &sparse, Arc::default()).unwrap();
            assert_eq!(content.missing().said(), [(0, 8 << 20)]);
            let sent = &bytes[1 << 20..9 << 20];
            for (at, chunk) in sent.chunks(piece).enumerate() {
                content.write_all_at(chunk, (at * piece) as u64).unwrap();
            }
            let hash = content.complete().unwrap();
            assert_eq!(hash, blake3::hash(sent));
            content.place(hash).unwrap();
            let path = root.path().join("f");
            assert!(std::fs::read(&path).unwrap() == bytes);
            assert_eq!(destination.begin_transfer().claim_same(&sparse.path, &sparse, hash), Ok(()));
            let stored = 512 * path.metadata().unwrap().blocks();
            assert!(stored < 100_000, "{stored} bytes in pieces of {piece}");
            std::fs::remove_file(path).unwrap();
        }
    }

    /// Reading these holes would take hours.
    #[test]
    fn holes_are_neither_read_nor_hashed_and_must_be_holes_when_a_file_is_continued() {
        let root = tempfile::tempdir().unwrap();
        let mut sparse = file(4 << 40);
        let hole = (2 * RESUMED_BYTES_MIN, 4 << 40);
        sparse.holes = Gaps::parse(&[hole], sparse.bytes).unwrap();
        let half = vec![7; RESUMED_BYTES_MIN as usize];
        let begin = |run| {
            let content = Content::create(&open(&root, run), &sparse, Arc::default()).unwrap();
            content.write_all_at(&half, 0).unwrap();
        };
        begin(0);
        let mut content = Content::resume(&open(&root, 1), &sparse, Arc::default()).unwrap();
        assert_eq!(content.missing().said(), [(RESUMED_BYTES_MIN, 2 * RESUMED_BYTES_MIN)]);
        content.write_all_at(&half, 0).unwrap();
        let hash = content.complete().unwrap();
        assert_eq!(hash, blake3::hash(&[&half[..], &half].concat()));
        content.place(hash).unwrap();
        assert_eq!(open(&root, 2).claim_same(&sparse.path, &sparse, hash), Ok(()));
        let path = root.path().join("f");
        let placed = std::fs::File::options().write(true).open(&path).unwrap();
        assert_eq!(placed.metadata().unwrap().len(), sparse.bytes);
        placed.write_all_at(b"x", 1 << 40).unwrap();
        assert_eq!(open(&root, 3).claim_same(&sparse.path, &sparse, hash), Err(Verdict::Conflict));
        std::fs::remove_file(path).unwrap();

        begin(4);
        let part = root.path().join(sparse.path.part(&record::tag(&sparse), ""));
        std::fs::File::options().write(true).open(part).unwrap().write_all_at(b"x", 1 << 40).unwrap();
        assert!(Content::resume(&open(&root, 5), &sparse, Arc::default()).is_none());
    }

    #[test]
    fn what_was_written_down_need_not_come_again() {
        let root = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..4 * RESUMED_BYTES_MIN + 5).map(|at| (at % 251) as u8).collect();
        let (file, arrived) = (file(bytes.len() as u64), Arc::<AtomicU64>::default());
        let destination = open(&root, 0);
        let content = Content::create(&destination, &file, Arc::clone(&arrived)).unwrap();
        assert!(Content::resume(&open(&root, 1), &file, Arc::clone(&arrived)).is_none(), "it is in use");
        let (head, tail) = (3 * GROUP as usize + 9, bytes.len() - 2 * GROUP as usize);
        content.write_all_at(&bytes[tail..], tail as u64).unwrap();
        content.write_all_at(&bytes[..head], 0).unwrap();
        drop(content);
        let tail = (tail as u64).next_multiple_of(GROUP);

        // By the same run, and by others.
        for run in [0, 1, 2] {
            let content = Content::resume(&open(&root, run), &file, Arc::clone(&arrived)).unwrap();
            assert_eq!(content.missing().said(), [(3 * GROUP, tail)]);
        }
        // Damaged since: only the matching groups count.
        let path = root.path().join(file.path.part(&record::tag(&file), ""));
        let damaged = std::fs::File::options().write(true).open(path).unwrap();
        damaged.write_all_at(b"damaged", 5).unwrap();
        drop(damaged);
        let mut content = Content::resume(&open(&root, 3), &file, arrived).unwrap();
        assert_eq!(content.missing().said(), [(0, 2 * GROUP), (3 * GROUP, tail)]);
        content.write_all_at(&bytes[..2 * GROUP as usize], 0).unwrap();
        let missing = &bytes[3 * GROUP as usize..tail as usize];
        content.write_all_at(missing, 2 * GROUP).unwrap();
        let hash = content.complete().unwrap();
        assert_eq!(hash, blake3::hash(&bytes));
        content.place(hash).unwrap();
        assert!(std::fs::read(root.path().join("f")).unwrap() == bytes);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }

    /// A forged record and part that match each other.
    #[test]
    fn forged_records_are_not_believed_beyond_the_hash() {
        let root = tempfile::tempdir().unwrap();
        let bytes = vec![7; 4 * RESUMED_BYTES_MIN as usize];
        let (file, arrived) = (file(bytes.len() as u64), Arc::<AtomicU64>::default());
        let forger = Content::create(&open(&root, 1), &file, Arc::clone(&arrived)).unwrap();
        forger.write_all_at(&vec![8; 3 * RESUMED_BYTES_MIN as usize], 0).unwrap();
        drop(forger);
        // The true hashes over false bytes.
        let mut tree = Tree::new(file.bytes);
        for group in 0..4 {
            tree.insert(group, tree.hasher(group).update(&bytes[..GROUP as usize]));
        }
        let record = root.path().join(file.path.part(&record::tag(&file), crate::transfer::paths::RECORD));
        std::fs::write(&record, record::write(&file, &tree, &[9; 32])).unwrap();
        let content = Content::resume(&open(&root, 2), &file, Arc::clone(&arrived)).unwrap();
        assert_eq!(content.missing().said(), [(0, file.bytes)]);
        // Longer than any file.
        std::fs::write(&record, vec![0xff; 5 << 20]).unwrap();
        drop(content);
        std::fs::write(&record, vec![0xff; 5 << 20]).unwrap();
        assert!(Content::resume(&open(&root, 2), &file, arrived).is_none());
    }
}
