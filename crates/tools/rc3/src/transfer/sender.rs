//! The sender's part of a conversation, without input and output: its messages in order, which file is next, and what the
//! receiver's messages mean.
//!
//! Invariants. Each entry is settled once. A file counts as in place only after its hash was sent.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{
    content::RESUMED_BYTES_MIN,
    gaps::{GAPS_MAX, Gaps},
    manifest::{Found, LeftOut, SourceEntry},
    message::{self, Change, EARLY_FILES_MAX, FromReceiver, FromSender, Kind, Refusal, Work},
    outbound::SMALL_BYTES_MAX,
    paths::printable,
    verdict::{Omission, Unkept, Verdict},
};
use crate::error::{Error, Result};

/// Most gaps of all files together: a receiver resumes some hundred files at most.
const ALL_GAPS_MAX: usize = 512 * GAPS_MAX;

/// Most bytes that are sent before the receiver has accepted them: a round trip's worth on long and fast paths.
const EARLY_BYTES_MAX: u64 = 4 << 20;

/// One conversation.
pub(super) struct Sender<'a> {
    found: &'a Found,
    manifest: Box<dyn Iterator<Item = FromSender> + Send + 'a>,
    /// Messages after the manifest.
    queue: VecDeque<FromSender>,
    states: Vec<State>,
    /// Missing ranges of files that the receiver has parts of.
    gaps: HashMap<u32, Gaps>,
    all_gaps: usize,
    /// Files of a dry run that exist with other content.
    changes: HashMap<u32, Change>,
    accepted: bool,
    /// Files of entries below this one do not wait for the receiver.
    early: u32,
    /// Files and links about which the receiver still owes a verdict, once it has accepted.
    open: usize,
    /// The first entry that was not looked at for sending.
    next: u32,
    /// Files to send again.
    changed: VecDeque<u32>,
    /// Files whose hash was sent before all bytes had left, and which could not be read again. The receiver may have had all.
    retracted: HashSet<u32>,
    /// Second versions of files, whose entries follow those of the manifest.
    again: Vec<SourceEntry>,
}

/// What both sides know of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Directory,
    Announced,
    /// This entry is its second version.
    Replaced(u32),
    /// The receiver has requested its hash.
    Compared,
    /// All of this many bytes are sent. A link is complete in the manifest.
    Sent(u64),
    /// The sender leaves it out.
    Omitted(Omission),
    Settled(Verdict),
}

/// What a message of the receiver means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing to do.
    Noted,
    Working(Work),
    /// It requests a file's hash.
    Compare(u32),
    Accepted,
    /// A file or link of this many bytes is in place.
    InPlace(u32, u64),
    Finished,
}

/// How the sending of a file ended.
pub(super) enum Sent {
    /// With the hash of a file of this many bytes.
    Whole(blake3::Hash, u64),
    /// The receiver stopped reading, and says why.
    Stopped,
    /// The file changed, or cannot be read.
    Failed(Omission),
}

impl<'a> Sender<'a> {
    pub(super) fn new(found: &'a Found, dry_run: bool) -> Self {
        let entries = found.entries.iter().flat_map(|entry| {
            let attributes = entry.attributes.iter().cloned().map(FromSender::Attribute);
            std::iter::once(FromSender::Entry(entry.entry())).chain(attributes)
        });
        let absent = |left_out: &LeftOut| {
            let path = left_out.absent()?.as_bytes().to_owned();
            Some(FromSender::Absent { path, reason: message::reason(&left_out.reason) })
        };
        let early = if dry_run { 0 } else { early(&found.entries) };
        let end = FromSender::ManifestEnd { dry_run, early };
        let state = |entry: &SourceEntry| match entry.kind {
            Kind::Directory { .. } => State::Directory,
            Kind::File { .. } | Kind::Pipe => State::Announced,
            Kind::Link { .. } | Kind::HardLink { .. } => State::Sent(0),
        };
        Self {
            found,
            manifest: Box::new(entries.chain(found.left_out.iter().filter_map(absent)).chain([end])),
            queue: VecDeque::new(),
            states: found.entries.iter().map(state).collect(),
            gaps: HashMap::new(),
            all_gaps: 0,
            changes: HashMap::new(),
            accepted: false,
            early,
            open: 0,
            next: 0,
            changed: VecDeque::new(),
            retracted: HashSet::new(),
            again: Vec::new(),
        }
    }

    /// The next message to the receiver.
    pub(super) fn next_message(&mut self) -> Option<FromSender> {
        self.manifest.next().or_else(|| self.queue.pop_front())
    }

    /// Messages that wait after the manifest.
    pub(super) fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// A file or its second version.
    pub(super) fn entry(&self, entry: u32) -> Option<&SourceEntry> {
        let at = entry as usize;
        self.found.entries.get(at).or_else(|| self.again.get(at.checked_sub(self.found.entries.len())?))
    }

    /// Whether files may follow before the receiver says more.
    pub(super) fn has_more_files(&self) -> bool {
        (self.accepted && (self.next as usize) < self.states.len()) || self.next < self.early
    }

    /// The next file and what a stream carries of it, in order, so that the receiver can match their streams.
    pub(super) fn next_file(&mut self) -> Option<(u32, Gaps)> {
        while self.has_more_files() {
            let entry = self.next;
            self.next += 1;
            if self.is_open(entry) || (self.is_promised(entry) && self.entry(entry).is_some_and(is_file)) {
                return Some((entry, self.missing(entry)));
            }
        }
        None
    }

    /// Whether the receiver counts on the stream of a file, even if it has settled it.
    fn is_promised(&self, entry: u32) -> bool {
        entry < self.early || entry as usize >= self.found.entries.len()
    }

    /// The next file that changed. These come after all others.
    pub(super) fn next_changed(&mut self) -> Option<u32> {
        loop {
            let entry = self.changed.pop_front()?;
            if self.is_open(entry) {
                return Some(entry);
            }
        }
    }

    /// What a stream carries of a file.
    fn missing(&self, entry: u32) -> Gaps {
        let all = || Gaps::whole(self.entry(entry).map_or(0, |file| file.data().len()));
        self.gaps.get(&entry).cloned().unwrap_or_else(all)
    }

    /// Whether the file is neither sent nor settled.
    fn is_open(&self, entry: u32) -> bool {
        matches!(self.states.get(entry as usize), Some(State::Announced | State::Compared))
    }

    /// The answer to a comparison, or why there is none.
    pub(super) fn on_hashed(&mut self, entry: u32, hash: Result<blake3::Hash, Omission>) {
        match hash {
            Ok(hash) => self.queue.push_back(FromSender::Hash { entry, hash: hash.into() }),
            Err(omission) => self.omit(entry, omission),
        }
    }

    /// The present version of a file follows, or cannot.
    pub(super) fn on_again(&mut self, entry: u32, file: Result<SourceEntry, Omission>) {
        match file {
            Ok(file) => {
                self.queue.push_back(FromSender::Again { entry, kind: file.kind.clone() });
                self.states[entry as usize] = State::Replaced(self.states.len() as u32);
                self.states.push(State::Announced);
                self.again.push(file);
            }
            Err(omission) => self.omit(entry, omission),
        }
    }

    /// A file was sent, or its hash is known, and how its sending ends will follow.
    pub(super) fn on_sent(&mut self, entry: u32, sent: Sent) {
        if let (Sent::Failed(_), Some(state @ State::Sent(_))) = (&sent, self.states.get_mut(entry as usize))
        {
            *state = State::Announced;
            self.retracted.insert(entry);
        }
        match sent {
            Sent::Whole(hash, bytes) if self.is_open(entry) => {
                self.states[entry as usize] = State::Sent(bytes);
                self.queue.push_back(FromSender::Hash { entry, hash: hash.into() });
            }
            Sent::Whole(..) | Sent::Stopped => {}
            // Once for each file.
            Sent::Failed(Omission::Changed) if (entry as usize) < self.found.entries.len() => {
                self.changed.push_back(entry);
            }
            Sent::Failed(omission) => self.omit(entry, omission),
        }
    }

    fn omit(&mut self, entry: u32, omission: Omission) {
        if self.is_open(entry) {
            self.states[entry as usize] = State::Omitted(omission.clone());
            self.open = self.open.saturating_sub(1);
            self.queue.push_back(FromSender::Omit { entry, omission });
        }
    }

    /// Handles a message of the receiver.
    ///
    /// # Errors
    /// Why the transfer ends.
    pub(super) fn on_reply(&mut self, reply: FromReceiver) -> Result<Heard> {
        let before = !self.accepted;
        match reply {
            FromReceiver::Working(work) => return Ok(Heard::Working(work)),
            FromReceiver::Refused { refusal, reason } => return Err(refused(refusal, &reason)),
            FromReceiver::Settled { entry, verdict } => return self.settle(entry, verdict),
            FromReceiver::Compare { entry }
                if before && entry >= self.early && self.is_file_in(entry, &State::Announced) =>
            {
                self.states[entry as usize] = State::Compared;
                return Ok(Heard::Compare(entry));
            }
            FromReceiver::Missing { entry, gaps } if before && entry >= self.early => {
                return self.on_missing(entry, &gaps);
            }
            FromReceiver::Would { entry, change }
                if before && self.is_open(entry) && self.changes.insert(entry, change).is_none() =>
            {
                return Ok(Heard::Noted);
            }
            FromReceiver::Accepted if before => {
                let owed =
                    |state: &&State| matches!(state, State::Announced | State::Compared | State::Sent(_));
                (self.accepted, self.open) = (true, self.states.iter().filter(owed).count());
                return Ok(Heard::Accepted);
            }
            FromReceiver::Finished if self.accepted && self.open == 0 => return Ok(Heard::Finished),
            _ => {}
        }
        Err(Error::protocol("an unexpected reply"))
    }

    fn is_file_in(&self, entry: u32, state: &State) -> bool {
        let entry = entry as usize;
        self.states.get(entry) == Some(state) && self.found.entries.get(entry).is_some_and(is_file)
    }

    fn on_missing(&mut self, entry: u32, gaps: &[(u64, u64)]) -> Result<Heard> {
        self.all_gaps += gaps.len();
        let is_file = self.is_file_in(entry, &State::Announced) || self.is_file_in(entry, &State::Compared);
        let file =
            self.found.entries.get(entry as usize).filter(|_| is_file && self.all_gaps <= ALL_GAPS_MAX);
        let gaps = file.and_then(|file| Gaps::parse(gaps, file.data().len()));
        if gaps.is_none_or(|gaps| self.gaps.insert(entry, gaps).is_some()) {
            return Err(Error::protocol("impossible gaps"));
        }
        Ok(Heard::Noted)
    }

    fn settle(&mut self, entry: u32, verdict: Verdict) -> Result<Heard> {
        let Some(state) = self.states.get_mut(entry as usize) else {
            return Err(Error::protocol("a verdict on an unknown entry"));
        };
        let heard = match (&*state, &verdict) {
            // Their messages have crossed.
            (_, Verdict::Placed) if self.retracted.remove(&entry) => return self.settle_retracted(entry),
            (&State::Replaced(again), _) => return self.settle(again, verdict),
            (State::Sent(bytes), Verdict::Placed) if self.accepted => Heard::InPlace(entry, *bytes),
            (_, Verdict::Placed | Verdict::Omitted(_)) | (State::Settled(_), _) => {
                return Err(Error::protocol("an impossible verdict"));
            }
            (State::Directory, Verdict::Same | Verdict::Damaged) => {
                return Err(Error::protocol("an impossible verdict on a directory"));
            }
            (State::Omitted(omission), _) => {
                *state = State::Settled(Verdict::Omitted(omission.clone()));
                return Ok(Heard::Noted);
            }
            (_, Verdict::Same) if self.accepted => return Err(Error::protocol("a file that was not sent")),
            (..) if !self.accepted && self.gaps.contains_key(&entry) => {
                return Err(Error::protocol("a verdict on a file that is missing"));
            }
            _ => Heard::Noted,
        };
        if *state != State::Directory {
            self.open = self.open.saturating_sub(1);
        }
        *state = State::Settled(verdict);
        Ok(heard)
    }

    /// The receiver had all of a file before it heard that its hash was taken back.
    fn settle_retracted(&mut self, entry: u32) -> Result<Heard> {
        let last = match self.states[entry as usize] {
            State::Replaced(again) => again,
            _ => entry,
        };
        match std::mem::replace(&mut self.states[last as usize], State::Settled(Verdict::Placed)) {
            State::Settled(_) => return Err(Error::protocol("an impossible verdict")),
            State::Omitted(_) => {}
            _ => self.open = self.open.saturating_sub(1),
        }
        Ok(Heard::InPlace(entry, self.entry(entry).map_or(0, SourceEntry::bytes)))
    }

    /// How many bytes are to be sent, or were, of what is not settled.
    pub(super) fn bytes_to_send(&self) -> u64 {
        let of = |(entry, state): (u32, &State)| match state {
            State::Announced | State::Compared | State::Sent(_) => self.missing(entry).len(),
            State::Directory | State::Replaced(_) | State::Omitted(_) | State::Settled(_) => 0,
        };
        (0..).zip(&self.states).map(of).sum()
    }

    /// How many files and links are to be sent.
    pub(super) fn files_to_send(&self) -> usize {
        self.open
    }

    /// Files that exist already, links included, and their bytes.
    pub(super) fn there(&self) -> (usize, u64) {
        let all = self.found.entries.iter().zip(&self.states);
        let same = all.filter(|(_, state)| **state == State::Settled(Verdict::Same));
        same.fold((0, 0), |(files, bytes), (file, _)| (files + 1, bytes + file.bytes()))
    }

    /// What is not in place.
    pub(super) fn unkept(&self) -> Unkept {
        let mut unkept = Unkept::default();
        for (entry, state) in self.found.entries.iter().chain(&self.again).zip(&self.states) {
            match state {
                State::Settled(verdict) => unkept.add(&entry.name, verdict),
                State::Omitted(omission) => unkept.add(&entry.name, &Verdict::Omitted(omission.clone())),
                _ => {}
            }
        }
        unkept
    }

    /// What would happen to each entry, in one word.
    pub(super) fn actions(&self) -> impl Iterator<Item = (&'a SourceEntry, &'static str)> {
        (0..).zip(self.found.entries.iter().zip(&self.states)).map(|(at, (entry, state))| {
            let action = match (state, self.changes.get(&at)) {
                (State::Settled(Verdict::Same), _) => "same",
                (State::Settled(Verdict::Conflict), _) => "conflict",
                (State::Settled(_) | State::Omitted(_), _) => "left-out",
                (State::Directory, _) => "directory",
                (_, Some(Change::Replace)) => "replace",
                (_, Some(Change::KeepBoth)) => "keep-both",
                _ if self.gaps.contains_key(&at) => "continue",
                _ => "send",
            };
            (entry, action)
        })
    }
}

/// Up to which entry files are sent before the receiver has accepted them. They are small: the word of each is final, and
/// none is continued.
fn early(entries: &[SourceEntry]) -> u32 {
    let (mut files, mut bytes) = (0, 0);
    let is_early = |entry: &&SourceEntry| {
        files += u32::from(is_file(entry));
        bytes += entry.data().len();
        entry.kind != Kind::Pipe
            && entry.bytes() < RESUMED_BYTES_MIN
            && entry.data().len() <= SMALL_BYTES_MAX
            && files <= EARLY_FILES_MAX
            && bytes <= EARLY_BYTES_MAX
    };
    entries.iter().take_while(is_early).count() as u32
}

fn is_file(entry: &SourceEntry) -> bool {
    matches!(entry.kind, Kind::File { .. })
}

/// A reply that ends the transfer.
pub(super) fn refused(refusal: Refusal, reason: &str) -> Error {
    match refusal {
        Refusal::Manifest => Error::refused(printable(reason)),
        Refusal::Storage => Error::peer(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{message::Entry, paths::SafePath, stamp::Stamp},
        *,
    };

    const HASH: [u8; 32] = [7; 32];

    fn found() -> Found {
        let entry = |name: &str, kind| SourceEntry {
            path: name.into(),
            name: SafePath::parse(name.as_bytes()).unwrap(),
            kind,
            stamp: Stamp::default(),
            held: None,
            attributes: Vec::new(),
        };
        let file = |bytes| Kind::File { bytes, mode: None, modified: None, holes: Vec::new() };
        let directory = Kind::Directory { mode: None, modified: None };
        let link = Kind::Link { target: b"a".to_vec(), modified: None };
        let entries =
            vec![entry("d", directory), entry("d/a", file(100)), entry("d/b", file(5)), entry("d/l", link)];
        let mut found = Found::default();
        found.entries = entries;
        found
    }

    fn settled(entry: u32, verdict: Verdict) -> FromReceiver {
        FromReceiver::Settled { entry, verdict }
    }

    #[test]
    fn a_conversation_ends_when_every_file_and_link_is_settled() {
        let mut found = found();
        // Too large to be sent at once.
        let large = RESUMED_BYTES_MIN;
        found.entries[1].kind = Kind::File { bytes: large, mode: None, modified: None, holes: Vec::new() };
        let mut sender = Sender::new(&found, false);
        for _ in &found.entries {
            assert!(matches!(sender.next_message(), Some(FromSender::Entry(Entry { .. }))));
        }
        assert_eq!(sender.next_message(), Some(FromSender::ManifestEnd { dry_run: false, early: 1 }));
        assert!(sender.next_message().is_none() && sender.next_file().is_none());
        let missing = FromReceiver::Missing { entry: 1, gaps: vec![(10, 20)] };
        assert_eq!(sender.on_reply(missing).unwrap(), Heard::Noted);
        assert_eq!(sender.on_reply(FromReceiver::Compare { entry: 2 }).unwrap(), Heard::Compare(2));
        sender.on_hashed(2, Ok(HASH.into()));
        assert_eq!(sender.next_message(), Some(FromSender::Hash { entry: 2, hash: HASH }));
        assert_eq!(sender.on_reply(settled(2, Verdict::Same)).unwrap(), Heard::Noted);
        assert!(sender.on_reply(settled(3, Verdict::Placed)).is_err(), "before it was accepted");
        assert_eq!(sender.on_reply(FromReceiver::Accepted).unwrap(), Heard::Accepted);
        assert_eq!((sender.there(), sender.bytes_to_send(), sender.files_to_send()), ((1, 5), 10, 2));
        let Some((1, gaps)) = sender.next_file() else { panic!("no file") };
        assert_eq!((gaps.said(), sender.next_file().is_none()), (vec![(10, 20)], true));
        assert!(sender.on_reply(settled(1, Verdict::Placed)).is_err(), "before it was sent");
        sender.on_sent(1, Sent::Whole(HASH.into(), large));
        assert_eq!(sender.next_message(), Some(FromSender::Hash { entry: 1, hash: HASH }));
        assert_eq!(sender.on_reply(settled(3, Verdict::Placed)).unwrap(), Heard::InPlace(3, 0));
        assert!(sender.on_reply(FromReceiver::Finished).is_err(), "without a verdict on a file");
        assert_eq!(sender.on_reply(settled(1, Verdict::Placed)).unwrap(), Heard::InPlace(1, large));
        assert_eq!(sender.on_reply(FromReceiver::Finished).unwrap(), Heard::Finished);
    }

    #[test]
    fn a_hash_is_taken_back_and_verdicts_that_cross_are_understood() {
        // (whether the second version is announced, whether the first is in place, how many verdicts are then owed)
        for (again, placed, owed) in [(true, true, 2), (false, true, 2), (true, false, 3), (false, false, 3)]
        {
            let found = found();
            let mut sender = Sender::new(&found, false);
            while sender.next_message().is_some() {}
            sender.on_reply(FromReceiver::Accepted).unwrap();
            while sender.next_file().is_some() {}
            sender.on_sent(1, Sent::Whole(HASH.into(), 100));
            assert_eq!(sender.next_message(), Some(FromSender::Hash { entry: 1, hash: HASH }));
            sender.on_sent(1, Sent::Failed(Omission::Changed));
            if again {
                assert_eq!(sender.next_changed(), Some(1));
                sender.on_again(1, Ok(found.entries[1].clone()));
                assert!(matches!(sender.next_message(), Some(FromSender::Again { entry: 1, .. })));
            }
            if placed {
                assert_eq!(sender.on_reply(settled(1, Verdict::Placed)).unwrap(), Heard::InPlace(1, 100));
                assert!(sender.on_reply(settled(1, Verdict::Placed)).is_err(), "twice");
            }
            assert_eq!((sender.files_to_send(), sender.next_changed().is_some()), (owed, !again && !placed));
        }
        let found = found();
        let mut sender = Sender::new(&found, false);
        sender.on_reply(FromReceiver::Accepted).unwrap();
        sender.on_sent(1, Sent::Whole(HASH.into(), 100));
        sender.on_sent(1, Sent::Failed(Omission::Unreadable("gone".into())));
        assert_eq!(sender.files_to_send(), 2);
        assert_eq!(sender.on_reply(settled(1, Verdict::Placed)).unwrap(), Heard::InPlace(1, 100));
        assert_eq!((sender.files_to_send(), &sender.states[1]), (2, &State::Settled(Verdict::Placed)));
    }

    #[test]
    fn small_files_do_not_wait_and_come_whatever_the_receiver_decides() {
        let found = found();
        let mut sender = Sender::new(&found, false);
        while let Some(message) = sender.next_message() {
            let FromSender::ManifestEnd { early, .. } = message else { continue };
            assert_eq!(early, 4);
        }
        assert!(matches!(sender.next_file(), Some((1, _))));
        sender.on_sent(1, Sent::Whole(HASH.into(), 100));
        assert_eq!(sender.next_message(), Some(FromSender::Hash { entry: 1, hash: HASH }));
        assert!(sender.on_reply(FromReceiver::Compare { entry: 2 }).is_err(), "its hash comes anyway");
        assert!(sender.on_reply(FromReceiver::Missing { entry: 2, gaps: vec![(1, 2)] }).is_err());
        sender.on_reply(settled(2, Verdict::Conflict)).unwrap();
        assert!(matches!(sender.next_file(), Some((2, _))), "the receiver counts on its stream");
        sender.on_sent(2, Sent::Stopped);
        sender.on_reply(FromReceiver::Accepted).unwrap();
        assert_eq!((sender.files_to_send(), sender.bytes_to_send()), (2, 100));
        assert!(sender.next_file().is_none() && sender.next_message().is_none());
        for entry in [1, 3] {
            sender.on_reply(settled(entry, Verdict::Placed)).unwrap();
        }
        assert_eq!(sender.on_reply(FromReceiver::Finished).unwrap(), Heard::Finished);
    }

    #[test]
    fn a_file_that_changes_is_sent_again_once_and_messages_about_it_may_cross() {
        let found = found();
        let mut sender = Sender::new(&found, false);
        while sender.next_message().is_some() {}
        sender.on_reply(FromReceiver::Accepted).unwrap();
        while sender.next_file().is_some() {}
        sender.on_sent(1, Sent::Failed(Omission::Changed));
        assert!(sender.next_file().is_none() && sender.next_message().is_none());
        assert_eq!((sender.next_changed(), sender.next_changed()), (Some(1), None));
        sender.on_again(1, Ok(found.entries[1].clone()));
        assert!(matches!(sender.next_message(), Some(FromSender::Again { entry: 1, .. })));
        assert!(matches!(sender.next_file(), Some((4, _))) && sender.next_file().is_none());
        sender.on_sent(4, Sent::Failed(Omission::Changed));
        let omitted = FromSender::Omit { entry: 4, omission: Omission::Changed };
        assert_eq!((sender.next_message(), sender.next_changed()), (Some(omitted), None));
        assert_eq!(sender.files_to_send(), 2);
        assert_eq!(sender.on_reply(settled(1, Verdict::Name)).unwrap(), Heard::Noted);
        assert!(sender.on_reply(settled(1, Verdict::Name)).is_err(), "twice");
        for entry in [2, 3] {
            sender.on_reply(settled(entry, Verdict::Conflict)).unwrap();
        }
        assert_eq!(sender.on_reply(FromReceiver::Finished).unwrap(), Heard::Finished);
    }
}
