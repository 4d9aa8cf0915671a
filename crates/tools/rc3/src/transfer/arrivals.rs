//! What has come of each file of a transfer, and which file the next stream carries.
//!
//! Invariants. Streams are matched to files by their order alone: those of the manifest, then one for each `Again`. For
//! each file the sender says one last word, `FileSent` or `Omit`, and before it at most one `Again`. Each file is settled
//! once. Content of a version that the sender has declared void is never handed out.

use std::collections::{HashMap, VecDeque};

/// Hash of a file's content, as its sender read it.
type Hash = [u8; 32];

/// The files of one transfer; `C` is complete content.
#[derive(Debug)]
pub(super) struct Arrivals<C> {
    files: HashMap<u32, Arrival<C>>,
    streams: VecDeque<Version>,
    settled: usize,
    /// Files with content.
    complete: usize,
}

/// One version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) file: u32,
    /// Whether it is the second one.
    pub(super) again: bool,
}

#[derive(Debug)]
struct Arrival<C> {
    again: bool,
    word: Word,
    /// The stream of this version broke off.
    broken: bool,
    settled: bool,
    content: Option<C>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Awaited,
    Sent(Hash),
    Omitted { changed: bool },
}

/// What no sender says, as text.
pub(super) type Violation = &'static str;

const UNKNOWN: Violation = "a file outside the agreement";
const TWICE: Violation = "a file sent twice";

impl<C> Arrivals<C> {
    /// Files to come, in order, each with whether it has a stream.
    pub(super) fn new(files: impl Iterator<Item = (u32, bool)>) -> Self {
        let mut arrivals = Self { files: HashMap::new(), streams: VecDeque::new(), settled: 0, complete: 0 };
        for (file, has_stream) in files {
            let new =
                Arrival { again: false, word: Word::Awaited, broken: false, settled: false, content: None };
            arrivals.files.insert(file, new);
            arrivals.streams.extend(has_stream.then_some(Version { file, again: false }));
        }
        arrivals
    }

    /// Whether every file is settled.
    pub(super) fn is_done(&self) -> bool {
        self.settled == self.files.len()
    }

    /// Complete files without their sender's hash.
    pub(super) fn complete(&self) -> usize {
        self.complete
    }

    /// Whether a stream may come.
    pub(super) fn has_streams(&self) -> bool {
        !self.streams.is_empty()
    }

    /// What the next stream carries.
    pub(super) fn next_stream(&mut self) -> Option<Version> {
        self.streams.pop_front()
    }

    /// Whether this version of a file is still wanted.
    pub(super) fn is_wanted(&self, version: Version) -> bool {
        self.files.get(&version.file).is_some_and(|file| {
            file.again == version.again && !file.settled && !matches!(file.word, Word::Omitted { .. })
        })
    }

    /// The version of a file that is wanted.
    pub(super) fn version(&self, file: u32) -> Version {
        Version { file, again: self.files.get(&file).is_some_and(|file| file.again) }
    }

    /// Whether the file is in place or given up.
    pub(super) fn is_settled(&self, file: u32) -> bool {
        self.files.get(&file).is_none_or(|file| file.settled)
    }

    /// Whether the bytes of this version are of no use to any run.
    pub(super) fn is_void(&self, version: Version) -> bool {
        self.files
            .get(&version.file)
            .is_none_or(|file| file.again != version.again || file.word == Word::Omitted { changed: true })
    }

    /// The sender has read the file completely.
    pub(super) fn on_sent(&mut self, file: u32, hash: Hash) -> Result<(), Violation> {
        let file = self.awaited(file)?;
        if file.broken {
            return Err("the hash of a file whose stream broke off");
        }
        file.word = Word::Sent(hash);
        Ok(())
    }

    /// The sender sends another version of the file. Returns content that is void.
    pub(super) fn on_again(&mut self, at: u32, has_stream: bool) -> Result<Option<C>, Violation> {
        let file = self.awaited(at)?;
        if file.again {
            return Err(TWICE);
        }
        (file.again, file.broken) = (true, false);
        let void = file.content.take();
        self.complete -= usize::from(void.is_some());
        self.streams.extend(has_stream.then_some(Version { file: at, again: true }));
        Ok(void)
    }

    /// The sender leaves the file out, because it `changed` or else cannot be read. Returns its content.
    pub(super) fn on_omit(&mut self, file: u32, changed: bool) -> Result<Option<C>, Violation> {
        let file = self.awaited(file)?;
        file.word = Word::Omitted { changed };
        let void = file.content.take();
        self.complete -= usize::from(void.is_some());
        Ok(void)
    }

    /// The stream of a version broke off with this content, so that the sender owes a word about the file. Returns content
    /// that is not wanted.
    pub(super) fn on_broken(&mut self, version: Version, content: Option<C>) -> Result<Option<C>, Violation> {
        if !self.is_wanted(version) {
            return Ok(content);
        }
        match self.files.get_mut(&version.file) {
            Some(Arrival { word: Word::Sent(_), .. }) => {
                return Err("a stream that breaks off after its hash");
            }
            Some(file) => file.broken = true,
            None => {}
        }
        Ok(content.and_then(|content| self.on_content(version, content)))
    }

    /// A version has arrived. Returns it if it is void.
    pub(super) fn on_content(&mut self, version: Version, content: C) -> Option<C> {
        if !self.is_wanted(version) {
            return Some(content);
        }
        let file = self.files.get_mut(&version.file)?;
        let void = file.content.replace(content);
        self.complete += usize::from(void.is_none());
        void
    }

    /// The content of a file and its sender's hash, once both are there.
    pub(super) fn ready(&mut self, file: u32) -> Option<(C, Hash)> {
        let file = self.files.get_mut(&file)?;
        let Word::Sent(hash) = file.word else { return None };
        let content = file.content.take()?;
        self.complete -= 1;
        Some((content, hash))
    }

    /// The file is in place or given up; returns whether it was not before.
    pub(super) fn settle(&mut self, file: u32) -> bool {
        let Some(file) = self.files.get_mut(&file).filter(|file| !file.settled) else { return false };
        file.settled = true;
        self.settled += 1;
        true
    }

    /// A file about which the sender has not said its last word.
    fn awaited(&mut self, file: u32) -> Result<&mut Arrival<C>, Violation> {
        match self.files.get_mut(&file) {
            Some(file) if file.word == Word::Awaited => Ok(file),
            Some(_) => Err(TWICE),
            None => Err(UNKNOWN),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(file: u32, again: bool) -> Version {
        Version { file, again }
    }

    fn two() -> Arrivals<&'static str> {
        Arrivals::new([(0, true), (3, true)].into_iter())
    }

    #[test]
    fn a_file_that_changes_comes_last_and_its_first_version_is_void() {
        for first_arrives_before in [true, false] {
            let mut arrivals = two();
            assert_eq!(arrivals.next_stream(), Some(version(0, false)));
            if first_arrives_before {
                assert_eq!(arrivals.on_content(version(0, false), "torn"), None);
                assert_eq!(arrivals.on_again(0, true), Ok(Some("torn")));
            } else {
                assert_eq!(arrivals.on_again(0, true), Ok(None));
                assert_eq!(arrivals.on_content(version(0, false), "torn"), Some("torn"));
            }
            assert_eq!(arrivals.next_stream(), Some(version(3, false)));
            assert_eq!(arrivals.next_stream(), Some(version(0, true)));
            assert_eq!(arrivals.next_stream(), None);
            assert_eq!(arrivals.on_sent(0, [7; 32]), Ok(()));
            assert_eq!(arrivals.ready(0), None);
            assert_eq!(arrivals.on_content(version(0, true), "whole"), None);
            assert_eq!((arrivals.complete(), arrivals.ready(0)), (1, Some(("whole", [7; 32]))));
            assert!(arrivals.settle(0) && !arrivals.settle(0) && !arrivals.is_done());
            assert_eq!(arrivals.on_omit(3, false), Ok(None));
            assert!(arrivals.settle(3) && arrivals.is_done());
        }
    }

    #[test]
    fn contradictions_are_violations() {
        let mut arrivals = two();
        assert_eq!(arrivals.on_sent(1, [0; 32]), Err(UNKNOWN));
        assert_eq!(arrivals.on_again(1, true), Err(UNKNOWN));
        assert_eq!(arrivals.on_omit(9, true), Err(UNKNOWN));
        assert!(arrivals.on_again(0, true).is_ok());
        assert_eq!(arrivals.on_again(0, true), Err(TWICE));
        assert_eq!(arrivals.on_broken(version(0, false), Some("torn")), Ok(Some("torn")));
        assert!(arrivals.is_void(version(0, false)) && !arrivals.is_void(version(0, true)));
        assert!(arrivals.on_sent(0, [0; 32]).is_ok());
        assert_eq!(arrivals.on_sent(0, [0; 32]), Err(TWICE));
        assert_eq!(arrivals.on_again(0, true), Err(TWICE));
        assert_eq!(arrivals.on_omit(0, true), Err(TWICE));
        assert!(arrivals.on_broken(version(0, true), None).is_err());
        assert_eq!(arrivals.on_broken(version(3, false), Some("some")), Ok(None));
        assert!(arrivals.on_sent(3, [0; 32]).is_err());
        // An unreadable file may be continued by another run, a changed one not.
        assert_eq!(arrivals.on_omit(3, false), Ok(Some("some")));
        assert!(!arrivals.is_void(version(3, false)));
        let mut arrivals = two();
        assert_eq!(arrivals.on_omit(3, true), Ok(None));
        assert!(arrivals.is_void(version(3, false)) && !arrivals.is_wanted(version(3, false)));
    }

    proptest! {
        /// In any order of events, counts stay right and no void or unnamed content is handed out.
        #[test]
        fn any_order_of_events_is_survived(events in proptest::collection::vec((0_u8..7, 0_u32..3, any::<bool>()), 0..60)) {
            let mut arrivals = Arrivals::new([(0, true), (1, true), (2, false)].into_iter());
            let (mut again, mut settled) = ([false; 3], 0);
            for (event, file, flag) in events {
                let at = file as usize;
                match event {
                    0 => drop(arrivals.on_sent(file, [file as u8; 32])),
                    1 => again[at] |= arrivals.on_again(file, flag).is_ok(),
                    2 => drop(arrivals.on_omit(file, flag)),
                    3 => drop(arrivals.on_broken(version(file, flag), Some((file, flag)))),
                    4 => drop(arrivals.on_content(version(file, flag), (file, flag))),
                    5 => if let Some((content, hash)) = arrivals.ready(file) {
                        prop_assert_eq!((content, hash), ((file, again[at]), [file as u8; 32]));
                    },
                    _ => settled += usize::from(arrivals.settle(file)),
                }
                prop_assert!(arrivals.complete() <= 3);
                prop_assert_eq!(arrivals.is_done(), settled == 3);
            }
        }
    }
}
