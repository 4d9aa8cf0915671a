//! Decides what to transfer of a manifest: not what exists already, of interrupted files only the rest, and nothing in
//! place of other content unless the policy allows.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use super::{
    content::Content,
    destination::{Destination, Existing, Same},
    error::TransferError,
    expected::{Expected, ExpectedDirectory, Received, Totals},
    faults,
    message::{Change, FromReceiver, FromSender, Refusal, Skip, Work, reason},
    outcome::Unkept,
    paths::SafePath,
    places::{Fate, Look, Places},
    session::Session,
};

/// Hashes requested in advance: a round trip's worth of small files.
const COMPARED_AHEAD: usize = 4096;
/// The slowest disk of a sender: one that reads files for their hashes at this rate is not taken for a silent one.
const HASHED_BYTES_PER_SECOND_MIN: u64 = 4 << 20;
/// Most files resumed from an earlier transfer: each stays open until it is complete.
const RESUMED_MAX: usize = 64;

/// The agreement of both sides.
pub(super) struct Agreement {
    /// All files and links, with the paths that they get.
    pub(super) files: Vec<Expected>,
    /// Indices of the files to receive, in order.
    pub(super) to_come: Vec<u32>,
    /// Links to make.
    pub(super) links: Vec<Expected>,
    /// Files that already exist with the sender's content, by their hashes.
    pub(super) unchanged: Vec<u32>,
    /// Entries that are not created.
    pub(super) skipped: Vec<(u32, Skip)>,
    /// Files that exist with other content, and what happens to them.
    pub(super) changes: Vec<(u32, Change)>,
    /// What the user learns at the end.
    pub(super) unkept: Unkept,
    /// Bytes that streams will bring.
    pub(super) needed: u64,
    /// Bytes of files that exist already.
    pub(super) there: u64,
    /// Lengths of all files.
    pub(super) totals: Totals,
    /// Files from an earlier transfer, until their streams arrive.
    pub(super) resumed: HashMap<u32, Content>,
    /// The directories, each with whether it did not exist.
    pub(super) directories: Vec<(ExpectedDirectory, bool)>,
}

/// Why a transfer is refused, for the sender and for this side.
type Refused = (Refusal, TransferError);

impl Agreement {
    /// Checks what exists, and creates the directories unless this is a dry run.
    pub(super) async fn reach(
        session: &mut Session,
        destination: &Destination,
        manifest: Received,
        arrived: &Arc<AtomicU64>,
        dry_run: bool,
    ) -> Result<Self, TransferError> {
        let there = destination.clone();
        let looked = session.blocking(Work::Comparing, move || look(&there, manifest));
        let Looked { manifest, looks, blocked } = looked.await?;
        let fates = compare(session, destination, &manifest.files, looks).await?;

        let (there, arrived) = (destination.clone(), Arc::clone(arrived));
        let prepared = session.blocking(Work::Comparing, move || {
            let mut plan = Plan { manifest, fates, blocked };
            let directories = if dry_run { Vec::new() } else { plan.make_directories(&there)? };
            plan.agreement(&there, directories, &arrived, dry_run)
        });
        let prepared = prepared.await?;
        settled(session, prepared).await
    }
}

/// The first look at all places.
struct Looked {
    manifest: Received,
    looks: Vec<Look>,
    blocked: HashMap<SafePath, Skip>,
}

fn look(destination: &Destination, manifest: Received) -> Looked {
    let places = Places::new(destination, &manifest);
    let looks = manifest.files.iter().map(|file| places.look(file)).collect();
    let blocked = places.into_blocked().into_iter().map(|path| (path, Skip::Conflict)).collect();
    Looked { manifest, looks, blocked }
}

/// Compares the files that may be the same.
async fn compare(
    session: &mut Session,
    destination: &Destination,
    files: &[Expected],
    looks: Vec<Look>,
) -> Result<Vec<Fate>, TransferError> {
    let mut fates: Vec<Fate> = looks.iter().map(|look| look.fate.clone()).collect();
    let open = files.iter().zip(looks).enumerate().filter(|(_, (_, look))| !look.candidates.is_empty());
    let mut open = open.map(|(at, (file, look))| (at, file, look.candidates));
    let mut asked = VecDeque::new();
    loop {
        while asked.len() < COMPARED_AHEAD
            && let Some((at, file, candidates)) = open.next()
        {
            session.say(&FromReceiver::Compare { file: file.index }).await?;
            asked.push_back((at, file, candidates));
        }
        let Some((at, asked_file, candidates)) = asked.pop_front() else { return Ok(fates) };
        let reading = Duration::from_secs(asked_file.bytes / HASHED_BYTES_PER_SECOND_MIN);
        let hash = match session.hear_soon("the hash of a file that exists", reading).await? {
            FromSender::Hash { file, hash } if file == asked_file.index => hash,
            FromSender::Omit { file, omission } if file == asked_file.index => {
                if let Some(fate) = fates.get_mut(at) {
                    *fate = Fate::Omitted(omission);
                }
                continue;
            }
            FromSender::Abort { reason } => return Err(TransferError::peer(&reason)),
            _ => return Err(TransferError::Protocol("a message other than the requested hash".to_owned())),
        };
        let there = destination.clone();
        let hash = hash.into();
        let compared = session.blocking(Work::Comparing, move || compared(&there, candidates, hash)).await?;
        if let Some(fate) = fates.get_mut(at) {
            match compared {
                Ok(path) => *fate = Fate::Unchanged(path),
                // Nothing else would be done with it.
                Err(skip) if matches!(fate, Fate::Skip(_)) => *fate = Fate::Skip(skip),
                Err(_) => {}
            }
        }
    }
}

/// The first of the files with this hash; else why there is none.
fn compared(
    destination: &Destination,
    candidates: Vec<SafePath>,
    hash: blake3::Hash,
) -> Result<SafePath, Skip> {
    let mut why = Skip::Conflict;
    for path in candidates {
        match destination.claim_same(&path, hash) {
            Ok(Same::Claimed) => return Ok(path),
            Ok(Same::Shared) => why = Skip::Shared,
            Ok(Same::No) => {}
            Err(error) => why = Skip::Refused(reason(format!("cannot read what has its name: {error}"))),
        }
    }
    Err(why)
}

/// What is decided of a manifest.
struct Plan {
    manifest: Received,
    /// Of each file and link.
    fates: Vec<Fate>,
    /// Directories that cannot be created.
    blocked: HashMap<SafePath, Skip>,
}

impl Plan {
    /// Creates the missing directories; returns all, each with whether it is new.
    fn make_directories(
        &mut self,
        destination: &Destination,
    ) -> Result<Vec<(ExpectedDirectory, bool)>, Refused> {
        let mut made = Vec::new();
        for directory in &self.manifest.directories {
            let path = &directory.path;
            if self.blocked.contains_key(path) {
                continue;
            }
            if let Some(skip) = path.parent().and_then(|parent| self.blocked.get(parent)).cloned() {
                self.blocked.insert(path.clone(), skip);
                continue;
            }
            match destination.create_directory(directory) {
                Ok(new) => made.push((directory.clone(), new)),
                Err(error) => match faults::skip(&error) {
                    Some(skip) => drop(self.blocked.insert(path.clone(), skip)),
                    None => return Err(storage(path.to_string(), error)),
                },
            }
        }
        Ok(made)
    }

    fn agreement(
        self,
        destination: &Destination,
        directories: Vec<(ExpectedDirectory, bool)>,
        arrived: &Arc<AtomicU64>,
        dry_run: bool,
    ) -> Result<Agreement, Refused> {
        let Self { manifest, fates, blocked } = self;
        let mut agreement = Agreement {
            files: manifest.files,
            to_come: Vec::new(),
            links: Vec::new(),
            unchanged: Vec::new(),
            skipped: manifest.unnameable.iter().map(|&entry| (entry, Skip::Name)).collect(),
            changes: Vec::new(),
            unkept: Unkept::default(),
            needed: 0,
            there: 0,
            totals: manifest.totals,
            resumed: HashMap::new(),
            directories,
        };
        for (path, reason) in &manifest.absent {
            agreement.unkept.add_absent(path.clone(), reason);
        }
        for directory in &manifest.directories {
            if let Some(skip) = blocked.get(&directory.path) {
                agreement.skip(directory.entry, &directory.path, skip.clone());
            }
        }
        for (at, fate) in fates.into_iter().enumerate() {
            let Some(file) = agreement.files.get(at).cloned() else { continue };
            let blocked = file.path.parent().and_then(|parent| blocked.get(parent));
            let fate = blocked.map_or(fate, |skip| Fate::Skip(skip.clone()));
            if let Some(there) = already_there(&fate, &file, destination)
                && !dry_run
            {
                destination.remove_leftover(&file);
                destination.adopt(there, &file);
            }
            agreement.needed += agreement.settle(destination, at, file, fate, arrived);
        }
        match destination.free_bytes() {
            Some(free) if agreement.needed > free => {
                Err((Refusal::Storage, TransferError::NoSpace { needed: agreement.needed, free }))
            }
            _ => Ok(agreement),
        }
    }
}

impl Agreement {
    /// Signals everything to the sender, which then begins to send unless this is a dry run.
    pub(super) async fn say(&self, session: &mut Session, dry_run: bool) -> Result<(), TransferError> {
        for (entry, skip) in &self.skipped {
            session.say(&FromReceiver::Skip { entry: *entry, skip: skip.clone() }).await?;
        }
        for (&file, content) in &self.resumed {
            session.say(&FromReceiver::Missing { file, gaps: content.missing().said() }).await?;
        }
        for &file in &self.unchanged {
            session.say(&FromReceiver::Have { file }).await?;
        }
        for &(file, change) in self.changes.iter().filter(|_| dry_run) {
            session.say(&FromReceiver::Would { file, change }).await?;
        }
        session.say(&FromReceiver::Accepted).await
    }

    /// Files and links that exist already.
    pub(super) fn unchanged_files(&self) -> usize {
        let same = |skip: &Skip| matches!(skip, Skip::SameTime | Skip::SameLink);
        self.unchanged.len() + self.skipped.iter().filter(|(_, skip)| same(skip)).count()
    }

    fn skip(&mut self, entry: u32, path: &SafePath, skip: Skip) {
        self.skipped.push((entry, skip.clone()));
        self.unkept.add_skip(path.clone(), skip);
    }

    /// Notes what happens to a file; returns how many bytes of it will be written.
    fn settle(
        &mut self,
        destination: &Destination,
        at: usize,
        mut file: Expected,
        fate: Fate,
        arrived: &Arc<AtomicU64>,
    ) -> u64 {
        match fate {
            Fate::Skip(skip) => {
                if matches!(skip, Skip::SameTime | Skip::SameLink) {
                    self.there += file.bytes;
                }
                self.skip(file.entry, &file.path, skip);
                return 0;
            }
            Fate::Unchanged(_) => {
                self.there += file.bytes;
                self.unchanged.push(file.index);
                return 0;
            }
            Fate::Omitted(omission) => {
                self.unkept.add_omission(file.path, omission);
                return 0;
            }
            Fate::Change(change, path) => {
                file.path = path;
                self.changes.push((file.index, change));
            }
            Fate::Send => {}
        }
        if let Some(there) = self.files.get_mut(at) {
            there.path = file.path.clone();
        }
        if file.link.is_some() {
            self.links.push(file);
            return 0;
        }
        self.to_come.push(file.index);
        let resumed = if self.resumed.len() < RESUMED_MAX {
            Content::resume(destination, &file, Arc::clone(arrived))
        } else {
            None
        };
        let Some(content) = resumed else { return file.bytes - file.holes.len() };
        let missing = content.gaps().len();
        self.resumed.insert(file.index, content);
        missing
    }
}

/// The file that counts as the sender's. With [`Existing::KeepBoth`] one of the same time may have another name.
fn already_there<'a>(fate: &'a Fate, file: &'a Expected, destination: &Destination) -> Option<&'a SafePath> {
    match fate {
        Fate::Unchanged(path) => Some(path),
        Fate::Skip(Skip::SameTime) if destination.policy().existing != Existing::KeepBoth => Some(&file.path),
        _ => None,
    }
}

fn storage(path: String, error: io::Error) -> Refused {
    (Refusal::Storage, TransferError::Write { path, error })
}

/// Signals a refusal to the sender.
async fn settled<T>(session: &mut Session, outcome: Result<T, Refused>) -> Result<T, TransferError> {
    match outcome {
        Ok(settled) => Ok(settled),
        Err((refusal, error)) => {
            session.refuse(refusal, error.to_string()).await;
            Err(error)
        }
    }
}
