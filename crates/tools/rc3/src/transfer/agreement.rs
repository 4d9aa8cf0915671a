//! Decides what to transfer of a manifest: not what exists already, of interrupted files only the rest, and nothing in
//! place of other content unless the policy allows.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use rc3_text::units::about_bytes;

use super::{
    arrivals::Coming,
    content::Content,
    destination::Destination,
    expected::{Expected, Received, Totals},
    message::{Change, EARLY_FILES_MAX, FromReceiver, FromSender, Refusal, Work},
    paths::SafePath,
    places::{Fate, Places, Planned},
    session::Session,
    verdict::{Unkept, Verdict},
};
use crate::{
    error::{Error, ErrorKind, Result},
    system,
};

/// Hashes requested in advance: a round trip's worth of small files.
const COMPARED_AHEAD: usize = 4096;
/// The slowest disk of a sender: one that reads files for their hashes at this rate is not taken for a silent one.
const HASHED_BYTES_PER_SECOND_MIN: u64 = 4 << 20;
/// Most files resumed from an earlier transfer: each stays open until it is complete.
const RESUMED_MAX: usize = 64;

/// The agreement of both sides.
#[derive(Default)]
pub(super) struct Agreement {
    /// All files and links, with the paths that they get.
    pub(super) files: Vec<Expected>,
    /// Files that the sender sends, in order.
    pub(super) to_come: Vec<Coming>,
    /// What the sender said about files that it sends before it knows this agreement.
    pub(super) words: Vec<FromSender>,
    /// Links to make.
    pub(super) links: Vec<Expected>,
    /// The directories, each with whether it did not exist.
    pub(super) directories: Vec<(Expected, bool)>,
    /// Files from an earlier transfer, until their streams arrive.
    pub(super) resumed: HashMap<u32, Content>,
    /// Lengths of all files.
    pub(super) totals: Totals,
    /// Bytes that streams will bring.
    pub(super) needed: u64,
    /// Files and links that exist already, and their bytes.
    pub(super) there: (usize, u64),
    /// What the user learns at the end.
    pub(super) unkept: Unkept,
    /// Entries that are settled.
    verdicts: Vec<(u32, Verdict)>,
    /// Files that exist with other content, and what happens to them.
    changes: Vec<(u32, Change)>,
}

impl Agreement {
    /// Takes the whole of a pipe.
    pub(super) fn of_pipe(manifest: Received) -> Self {
        let pipe = Coming { file: 0, has_stream: true, settled: false };
        Self { files: manifest.files, to_come: vec![pipe], ..Self::default() }
    }

    /// Checks what exists, and creates the directories unless this is a dry run. Files of entries below `early` come in any
    /// case.
    pub(super) async fn reach(
        session: &mut Session,
        destination: &Destination,
        mut manifest: Received,
        arrived: &Arc<AtomicU64>,
        dry_run: bool,
        early: u32,
    ) -> Result<Self> {
        let there = destination.clone();
        let look = move || {
            let files = std::mem::take(&mut manifest.files);
            let places = Places::new(&there, &manifest);
            let planned: Vec<_> = files.into_iter().map(|file| places.plan(file)).collect();
            let blocked = places.into_blocked();
            (manifest, planned, blocked)
        };
        let (manifest, mut planned, blocked) = session.blocking(Work::Comparing, look).await?;
        let words = compare(session, destination, &mut planned, early).await?;
        let (there, arrived) = (destination.clone(), Arc::clone(arrived));
        let prepare = move || Self::prepare(&there, &manifest, planned, blocked, &arrived, dry_run, early);
        match session.blocking(Work::Comparing, prepare).await? {
            Ok(agreement) => Ok(Self { words, ..agreement }),
            Err(error) => session.refuse(Refusal::Storage, error).await,
        }
    }

    fn prepare(
        destination: &Destination,
        manifest: &Received,
        planned: Vec<Planned>,
        mut blocked: HashMap<SafePath, Verdict>,
        arrived: &Arc<AtomicU64>,
        dry_run: bool,
        early: u32,
    ) -> Result<Self> {
        let mut agreement = Self { totals: manifest.totals, ..Self::default() };
        // Of these, what is not wanted comes all the same.
        let is_early = |file: &Expected| file.entry < early && !file.is_link();
        let unwanted = |file: &Expected| {
            let coming = Coming { file: file.entry, has_stream: file.has_stream(), settled: true };
            is_early(file).then_some(coming)
        };
        for file in &manifest.unnameable {
            agreement.settle(file.entry, &file.path, Verdict::Name);
            agreement.to_come.extend(unwanted(file));
            agreement.files.extend(is_early(file).then(|| file.clone()));
        }
        for (path, reason) in &manifest.absent {
            agreement.unkept.add_absent(path, reason);
        }
        if !dry_run {
            agreement.directories = make_directories(destination, manifest, &mut blocked)?;
        }
        for directory in &manifest.directories {
            if let Some(verdict) = blocked.get(&directory.path) {
                agreement.settle(directory.entry, &directory.path, verdict.clone());
            }
        }
        for Planned { mut file, fate, .. } in planned {
            let blocked = file.path.parent().and_then(|parent| blocked.get(parent));
            match blocked.map_or(fate, |verdict| Fate::Settled(verdict.clone())) {
                Fate::Settled(verdict) => {
                    agreement.to_come.extend(unwanted(&file));
                    agreement.settle(file.entry, &file.path, verdict);
                }
                Fate::There(path) => {
                    agreement.to_come.extend(unwanted(&file));
                    if !dry_run {
                        destination.remove_leftover(&file);
                        destination.adopt(&path, &file);
                    }
                    agreement.there = (agreement.there.0 + 1, agreement.there.1 + file.bytes);
                    // Where other names of it lead.
                    file.path = path;
                    agreement.settle(file.entry, &file.path, Verdict::Same);
                }
                Fate::Receive(path, change) => {
                    agreement.changes.extend(change.map(|change| (file.entry, change)));
                    file.path = path;
                    let resume = || Content::resume(destination, &file, Arc::clone(arrived));
                    agreement.receive(&file, || if is_early(&file) { None } else { resume() });
                }
            }
            agreement.files.push(file);
        }
        agreement.files.sort_by_key(|file| file.entry);
        agreement.to_come.sort_by_key(|coming| coming.file);
        match system::free_bytes(&destination.0.dir) {
            Some(free) if agreement.needed > free => Err(Error::new(
                ErrorKind::Storage,
                format!("{} needed, {} free", about_bytes(agreement.needed), about_bytes(free)),
                "free some space at the receiver, then run the same command again",
            )),
            _ => Ok(agreement),
        }
    }

    fn settle(&mut self, entry: u32, path: &SafePath, verdict: Verdict) {
        self.unkept.add(path, &verdict);
        // Of its own omission the sender knows.
        if !matches!(verdict, Verdict::Omitted(_)) {
            self.verdicts.push((entry, verdict));
        }
    }

    fn receive(&mut self, file: &Expected, resume: impl FnOnce() -> Option<Content>) {
        if file.is_link() {
            return self.links.push(file.clone());
        }
        let resumed = (self.resumed.len() < RESUMED_MAX).then(resume).flatten();
        let (has_stream, missing) = match &resumed {
            Some(content) => (!content.missing().is_empty(), content.missing().len()),
            None => (file.has_stream(), file.data().len()),
        };
        self.resumed.extend(resumed.map(|content| (file.entry, content)));
        self.to_come.push(Coming { file: file.entry, has_stream, settled: false });
        self.needed += missing;
    }

    /// Signals everything to the sender, which then begins to send unless this is a dry run.
    pub(super) async fn say(&self, session: &mut Session, dry_run: bool) -> Result<()> {
        for (entry, verdict) in &self.verdicts {
            session.say(&FromReceiver::Settled { entry: *entry, verdict: verdict.clone() }).await?;
        }
        for (&entry, content) in &self.resumed {
            session.say(&FromReceiver::Missing { entry, gaps: content.missing().said() }).await?;
        }
        for &(entry, change) in self.changes.iter().filter(|_| dry_run) {
            session.say(&FromReceiver::Would { entry, change }).await?;
        }
        session.say(&FromReceiver::Accepted).await
    }
}

/// Creates the missing directories; returns all, each with whether it is new.
fn make_directories(
    destination: &Destination,
    manifest: &Received,
    blocked: &mut HashMap<SafePath, Verdict>,
) -> Result<Vec<(Expected, bool)>> {
    let mut made = Vec::new();
    for directory in &manifest.directories {
        let path = &directory.path;
        if blocked.contains_key(path) {
            continue;
        }
        if let Some(verdict) = path.parent().and_then(|parent| blocked.get(parent)).cloned() {
            blocked.insert(path.clone(), verdict);
            continue;
        }
        match destination.create_directory(directory) {
            Ok(new) => made.push((directory.clone(), new)),
            Err(error) => match Verdict::of(&error) {
                Some(verdict) => drop(blocked.insert(path.clone(), verdict)),
                None => return Err(Error::write(path, &error)),
            },
        }
    }
    Ok(made)
}

/// Compares the files that may be the same. Returns what the sender said meanwhile about files below `early`, whose words come
/// unasked.
async fn compare(
    session: &mut Session,
    destination: &Destination,
    planned: &mut [Planned],
    early: u32,
) -> Result<Vec<FromSender>> {
    let mut open = planned.iter_mut().filter(|planned| !planned.candidates.is_empty());
    let (mut asked, mut words) = (VecDeque::new(), Vec::<FromSender>::new());
    // What was asked is answered in order, but may overtake the words of early files.
    let mut answers = VecDeque::new();
    loop {
        while asked.len() < COMPARED_AHEAD
            && let Some(next) = open.next()
        {
            if next.file.entry >= early {
                session.say(&FromReceiver::Compare { entry: next.file.entry }).await?;
            }
            asked.push_back(next);
        }
        let Some(Planned { file, candidates, fate }) = asked.pop_front() else {
            return Ok(words);
        };
        let reading = Duration::from_secs(file.bytes / HASHED_BYTES_PER_SECOND_MIN);
        let is_early = file.entry < early;
        let word = loop {
            let held = if is_early {
                words.iter().find(|word| word.about() == Some(file.entry)).cloned()
            } else {
                answers.pop_front()
            };
            if let Some(word) = held {
                break word;
            }
            let word = session.hear_soon("the hash of a file that exists", reading).await?;
            match word.about() {
                Some(about) if about < early => {
                    let again = words.iter().any(|other| other.about() == Some(about));
                    if again || words.len() == EARLY_FILES_MAX as usize {
                        return Err(Error::protocol("a file sent twice"));
                    }
                    words.push(word);
                }
                Some(_) if answers.len() < COMPARED_AHEAD => answers.push_back(word),
                _ => break word,
            }
        };
        match word {
            FromSender::Hash { entry, hash } if entry == file.entry => {
                let (there, candidates) = (destination.clone(), std::mem::take(candidates));
                let expected = file.clone();
                let compared = move || compared(&there, candidates, &expected, hash.into());
                match session.blocking(Work::Comparing, compared).await? {
                    Ok(path) => *fate = Fate::There(path),
                    // Its fate has the reason already.
                    Err(Verdict::Conflict) => {}
                    // Nothing else would be done with it.
                    Err(verdict) if matches!(fate, Fate::Settled(_)) => *fate = Fate::Settled(verdict),
                    Err(_) => {}
                }
            }
            FromSender::Omit { entry, omission } if entry == file.entry => {
                *fate = Fate::Settled(Verdict::Omitted(omission));
            }
            // It has changed.
            FromSender::Again { entry, .. } if entry == file.entry && is_early => {}
            FromSender::Abort { reason } => return Err(Error::peer(&reason)),
            _ => return Err(Error::protocol("a message other than the requested hash")),
        }
    }
}

/// The first of the files with this hash; else why there is none.
fn compared(
    destination: &Destination,
    candidates: Vec<SafePath>,
    expected: &Expected,
    hash: blake3::Hash,
) -> Result<SafePath, Verdict> {
    let mut why = Verdict::Conflict;
    for path in candidates {
        match destination.claim_same(&path, expected, hash) {
            Ok(()) => return Ok(path),
            Err(Verdict::Conflict) => {}
            Err(verdict) => why = verdict,
        }
    }
    Err(why)
}
