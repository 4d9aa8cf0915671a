//! What has come of each file of a transfer, and which file the next stream carries.
//!
//! Invariants. Streams are matched to files by their order alone: those of the manifest, then one for each `Again`. For
//! each file the sender says one last word, `Hash`, `Omit` or `Again`, which only files of the manifest can have; it may take
//! back a hash. Each file is settled once. Content that the sender has declared void is never handed out.

use std::collections::{HashMap, VecDeque};

/// Hash of a file's content, as its sender read it.
type Hash = [u8; 32];

/// The files of one transfer; `C` is complete content.
#[derive(Debug)]
pub(super) struct Arrivals<C> {
    files: HashMap<u32, Arrival<C>>,
    streams: VecDeque<u32>,
    /// Entries of the manifest.
    announced: u32,
    /// Index of the next file that is sent again.
    next: u32,
    settled: usize,
    /// Files with content.
    complete: usize,
}

/// A file that the sender sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming {
    pub(super) file: u32,
    pub(super) has_stream: bool,
    /// It is not wanted.
    pub(super) settled: bool,
}

#[derive(Debug)]
struct Arrival<C> {
    word: Word,
    /// The stream broke off.
    broken: bool,
    settled: bool,
    /// It is complete, and about to be settled.
    placing: bool,
    content: Option<C>,
}

/// The last word of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Awaited,
    Sent(Hash),
    /// The file cannot be read.
    Unreadable,
    /// The file changed: no run can use what arrived.
    Void,
}

/// What no sender says, as text.
pub(super) type Violation = &'static str;

const UNKNOWN: Violation = "a file outside the agreement";
const TWICE: Violation = "a file sent twice";

impl<C> Arrivals<C> {
    /// Files to come of a manifest with so many entries, in order.
    pub(super) fn new(announced: u32, files: impl Iterator<Item = Coming>) -> Self {
        let (streams, next) = (VecDeque::new(), announced);
        let mut arrivals = Self { files: HashMap::new(), streams, announced, next, settled: 0, complete: 0 };
        files.for_each(|coming| arrivals.add(coming));
        arrivals
    }

    fn add(&mut self, Coming { file, has_stream, settled }: Coming) {
        self.settled += usize::from(settled);
        self.files.insert(
            file,
            Arrival { word: Word::Awaited, broken: false, settled, placing: false, content: None },
        );
        self.streams.extend(has_stream.then_some(file));
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
    pub(super) fn next_stream(&mut self) -> Option<u32> {
        self.streams.pop_front()
    }

    /// Whether the file is in place or given up.
    pub(super) fn is_settled(&self, file: u32) -> bool {
        self.files.get(&file).is_none_or(|file| file.settled)
    }

    /// Whether the bytes of the file are of no use to any run.
    pub(super) fn is_void(&self, file: u32) -> bool {
        self.files.get(&file).is_none_or(|file| file.word == Word::Void)
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

    /// The sender sends another version of the file. Returns its index, and content that is void.
    pub(super) fn on_again(&mut self, file: u32, has_stream: bool) -> Result<(u32, Option<C>), Violation> {
        if file >= self.announced {
            return Err(TWICE);
        }
        let void = self.on_omit(file, true)?;
        let again = self.next;
        self.next += 1;
        // What is given up stays given up, and what is complete stays so.
        let settled = self.is_placing(file) || !self.settle(file);
        self.add(Coming { file: again, has_stream, settled });
        Ok((again, void))
    }

    /// The sender leaves the file out, because it `changed` or else cannot be read. Returns its content.
    pub(super) fn on_omit(&mut self, file: u32, changed: bool) -> Result<Option<C>, Violation> {
        if let Some(Arrival { word: word @ Word::Sent(_), .. }) = self.files.get_mut(&file) {
            *word = Word::Awaited;
        }
        let file = self.awaited(file)?;
        file.word = if changed { Word::Void } else { Word::Unreadable };
        let void = file.content.take();
        self.complete -= usize::from(void.is_some());
        Ok(void)
    }

    /// The stream of a file broke off with this content, so that the sender owes a word about it. Returns content that is not
    /// wanted.
    pub(super) fn on_broken(&mut self, at: u32, content: C) -> Option<C> {
        if let Some(file) = self.files.get_mut(&at) {
            file.broken = true;
            if let Word::Sent(_) = file.word {
                file.word = Word::Awaited;
            }
        }
        self.on_content(at, content)
    }

    /// A file has arrived. Returns it if it is not wanted.
    pub(super) fn on_content(&mut self, file: u32, content: C) -> Option<C> {
        let Some(file) = self.files.get_mut(&file).filter(|file| !file.settled) else { return Some(content) };
        let void = file.content.replace(content);
        self.complete += usize::from(void.is_none());
        void
    }

    /// The content of a file and its sender's hash, once both are there.
    pub(super) fn ready(&mut self, file: u32) -> Option<(C, Hash)> {
        let file = self.files.get_mut(&file)?;
        let Word::Sent(hash) = file.word else { return None };
        let content = file.content.take()?;
        file.placing = true;
        self.complete -= 1;
        Some((content, hash))
    }

    /// Whether it is complete, and its verdict not known yet.
    pub(super) fn is_placing(&self, file: u32) -> bool {
        self.files.get(&file).is_some_and(|file| file.placing)
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

    fn coming(file: u32, has_stream: bool) -> Coming {
        Coming { file, has_stream, settled: false }
    }

    fn two() -> Arrivals<&'static str> {
        Arrivals::new(4, [coming(0, true), coming(3, true)].into_iter())
    }

    #[test]
    fn a_file_that_changes_comes_last_and_its_first_version_is_void() {
        for first_arrives_before in [true, false] {
            let mut arrivals = two();
            assert_eq!(arrivals.next_stream(), Some(0));
            if first_arrives_before {
                assert_eq!(arrivals.on_content(0, "torn"), None);
                assert_eq!(arrivals.on_again(0, true), Ok((4, Some("torn"))));
            } else {
                assert_eq!(arrivals.on_again(0, true), Ok((4, None)));
                assert_eq!(arrivals.on_content(0, "torn"), Some("torn"));
            }
            assert_eq!(arrivals.next_stream(), Some(3));
            assert_eq!(arrivals.next_stream(), Some(4));
            assert_eq!(arrivals.next_stream(), None);
            assert_eq!(arrivals.on_sent(4, [7; 32]), Ok(()));
            assert_eq!(arrivals.ready(4), None);
            assert_eq!(arrivals.on_content(4, "whole"), None);
            assert_eq!((arrivals.complete(), arrivals.ready(4)), (1, Some(("whole", [7; 32]))));
            assert!(arrivals.settle(4) && !arrivals.settle(4) && !arrivals.is_done());
            assert_eq!(arrivals.on_omit(3, false), Ok(None));
            assert!(arrivals.settle(3) && arrivals.is_done());
        }
    }

    #[test]
    fn what_is_given_up_stays_given_up_when_it_comes_again() {
        let mut arrivals = two();
        assert!(arrivals.settle(0) && arrivals.settle(3));
        assert_eq!(arrivals.on_again(0, true), Ok((4, None)));
        assert!(arrivals.is_done() && arrivals.is_settled(4) && !arrivals.settle(4));
        assert_eq!(arrivals.on_content(4, "whole"), Some("whole"));
        assert_eq!((arrivals.on_sent(4, [7; 32]), arrivals.ready(4)), (Ok(()), None));
    }

    #[test]
    fn a_file_that_is_not_wanted_still_has_its_stream_and_its_word() {
        let unwanted = Coming { settled: true, ..coming(0, true) };
        let mut arrivals = Arrivals::new(2, [unwanted, coming(1, true)].into_iter());
        assert_eq!((arrivals.next_stream(), arrivals.is_settled(0)), (Some(0), true));
        assert_eq!((arrivals.next_stream(), arrivals.is_settled(1)), (Some(1), false));
        assert_eq!(arrivals.on_again(0, true), Ok((2, None)));
        assert_eq!((arrivals.next_stream(), arrivals.is_settled(2)), (Some(2), true));
        assert!(!arrivals.is_done() && arrivals.settle(1) && arrivals.is_done());
        assert_eq!((arrivals.on_content(2, "whole"), arrivals.on_sent(2, [7; 32])), (Some("whole"), Ok(())));
    }

    #[test]
    fn a_hash_may_be_taken_back_until_the_file_is_complete() {
        for broken_first in [true, false] {
            let mut arrivals = two();
            assert!(arrivals.on_sent(0, [7; 32]).is_ok());
            if broken_first {
                assert_eq!((arrivals.on_broken(0, "torn"), arrivals.ready(0)), (None, None));
                assert_eq!(arrivals.on_again(0, true), Ok((4, Some("torn"))));
            } else {
                assert_eq!(arrivals.on_again(0, true), Ok((4, None)));
                assert_eq!(arrivals.on_broken(0, "torn"), Some("torn"));
            }
            assert_eq!((arrivals.is_settled(0), arrivals.is_settled(4)), (true, false));
        }
        let mut arrivals = two();
        assert_eq!((arrivals.on_sent(0, [7; 32]), arrivals.on_content(0, "whole")), (Ok(()), None));
        assert!(arrivals.ready(0).is_some() && arrivals.is_placing(0));
        assert_eq!(arrivals.on_again(0, true), Ok((4, None)));
        assert_eq!((arrivals.is_settled(0), arrivals.is_settled(4)), (false, true));
        assert_eq!(arrivals.on_again(0, true), Err(TWICE));
        assert_eq!(arrivals.on_omit(0, true), Err(TWICE));
    }

    #[test]
    fn contradictions_are_violations() {
        let mut arrivals = two();
        assert_eq!(arrivals.on_sent(1, [0; 32]), Err(UNKNOWN));
        assert_eq!(arrivals.on_again(1, true), Err(UNKNOWN));
        assert_eq!(arrivals.on_omit(9, true), Err(UNKNOWN));
        assert!(arrivals.on_again(0, true).is_ok());
        assert_eq!(arrivals.on_again(0, true), Err(TWICE));
        assert_eq!(arrivals.on_again(4, true), Err(TWICE));
        assert_eq!(arrivals.on_broken(0, "torn"), Some("torn"));
        assert!(arrivals.is_void(0) && !arrivals.is_void(4));
        assert!(arrivals.on_sent(4, [0; 32]).is_ok());
        assert_eq!(arrivals.on_sent(4, [0; 32]), Err(TWICE));
        assert_eq!((arrivals.on_omit(4, true), arrivals.on_omit(4, true)), (Ok(None), Err(TWICE)));
        assert_eq!(arrivals.on_broken(3, "some"), None);
        assert!(arrivals.on_sent(3, [0; 32]).is_err());
        // An unreadable file may be continued by another run, a changed one not.
        assert_eq!(arrivals.on_omit(3, false), Ok(Some("some")));
        assert!(!arrivals.is_void(3));
        let mut arrivals = two();
        assert_eq!(arrivals.on_omit(3, true), Ok(None));
        assert!(arrivals.is_void(3));
    }

    proptest! {
        /// In any order of events, counts stay right and no void or unnamed content is handed out.
        #[test]
        fn any_order_of_events_is_survived(events in proptest::collection::vec((0_u8..7, 0_u32..6, any::<bool>()), 0..60)) {
            let mut arrivals = Arrivals::new(3, [coming(0, true), coming(1, true), coming(2, false)].into_iter());
            let (mut files, mut void) = (3, [false; 6]);
            for (event, file, flag) in events {
                let at = file as usize;
                match event {
                    0 => drop(arrivals.on_sent(file, [file as u8; 32])),
                    1 => if let Ok((again, _)) = arrivals.on_again(file, flag) {
                        void[at] = true;
                        prop_assert_eq!(again, files);
                        files += 1;
                    },
                    2 => void[at] |= arrivals.on_omit(file, flag).is_ok(),
                    3 => drop(arrivals.on_broken(file, file)),
                    4 => drop(arrivals.on_content(file, file)),
                    5 => if let Some((content, hash)) = arrivals.ready(file) {
                        prop_assert_eq!((content, hash, void[at]), (file, [file as u8; 32], false));
                    },
                    _ => { arrivals.settle(file); }
                }
                prop_assert!(arrivals.complete() <= 6);
                prop_assert_eq!(arrivals.is_done(), (0..files).all(|file| arrivals.is_settled(file)));
            }
        }
    }
}
