//! Decides what to transfer of a manifest: not what exists already, and of interrupted files only the rest.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    io,
    sync::{Arc, atomic::AtomicU64},
};

use super::{
    content::Content,
    destination::{Destination, Occupant},
    error::TransferError,
    manifest::{Expected, ExpectedDirectory, Received},
    message::{FromReceiver, FromSender, Refusal, Work},
    session::Session,
};

/// Hashes requested in advance.
const COMPARED_AHEAD: usize = 64;
/// Most files resumed from an earlier transfer: each stays open until it is complete.
const RESUMED_MAX: usize = 256;

/// The agreement of both sides.
pub(super) struct Agreement {
    pub(super) files: Vec<Expected>,
    /// Files that already exist with the sender's content.
    pub(super) unchanged: HashSet<u32>,
    /// Files from an earlier transfer, until their streams arrive.
    pub(super) resumed: HashMap<u32, Content>,
    /// Directories that did not exist.
    pub(super) made: Vec<ExpectedDirectory>,
}

/// Why a transfer is refused, for the sender and for this side.
type Refused = (Refusal, TransferError);

impl Agreement {
    /// Reads the manifest, checks what exists, and creates the directories. A sender with a forbidden path is refused
    /// before anything changes.
    pub(super) async fn reach(
        session: &mut Session,
        destination: &Destination,
        manifest: Received,
        arrived: &Arc<AtomicU64>,
    ) -> Result<Self, TransferError> {
        destination.begin_transfer();
        let Received { directories, files, .. } = manifest;
        let there = destination.clone();
        let looked =
            session.blocking(Work::Comparing, move || Ok((occupied(&there, &files)?, files))).await?;
        let (same_length, files) = settled(session, looked).await?;
        let unchanged = compare(session, destination, &files, same_length).await?;

        let (there, arrived) = (destination.clone(), Arc::clone(arrived));
        let prepared = session.blocking(Work::Comparing, move || {
            let made = make(&there, directories)?;
            let resumed = resume(&there, &files, &unchanged, &arrived);
            Ok(Self { files, unchanged, resumed, made })
        });
        let prepared = prepared.await?;
        settled(session, prepared).await
    }
}

/// The files that may exist already.
fn occupied(destination: &Destination, files: &[Expected]) -> Result<VecDeque<u32>, Refused> {
    let mut same_length = VecDeque::new();
    for (at, file) in (0..).zip(files) {
        match destination.occupant(file) {
            Occupant::None => {}
            Occupant::SameLength => same_length.push_back(at),
            Occupant::Other => return Err((Refusal::Exists, TransferError::Exists(file.path.to_string()))),
        }
    }
    Ok(same_length)
}

/// Which of the files have the sender's content.
async fn compare(
    session: &mut Session,
    destination: &Destination,
    files: &[Expected],
    mut ask: VecDeque<u32>,
) -> Result<HashSet<u32>, TransferError> {
    let (mut asked, mut unchanged) = (VecDeque::new(), HashSet::new());
    loop {
        while asked.len() < COMPARED_AHEAD
            && let Some(file) = ask.pop_front()
        {
            session.say(&FromReceiver::Compare { file }).await?;
            asked.push_back(file);
        }
        let Some(at) = asked.pop_front() else { return Ok(unchanged) };
        let hash = match session.hear().await? {
            FromSender::Hash { file, hash } if file == at => hash,
            FromSender::Abort { reason } => return Err(TransferError::peer(&reason)),
            _ => return Err(TransferError::Protocol("a message other than the requested hash".to_owned())),
        };
        let Some(path) = files.get(at as usize).map(|file| file.path.clone()) else { continue };
        let there = destination.clone();
        let compared = session.blocking(Work::Comparing, move || match there.hash(&path) {
            Ok(Some(found)) if found == hash => Ok(true),
            Ok(_) if there.replaces() => Ok(false),
            Ok(_) => Err((Refusal::Exists, TransferError::Exists(path.to_string()))),
            Err(error) => Err(storage(path.to_string(), error)),
        });
        let compared = compared.await?;
        if settled(session, compared).await? {
            unchanged.insert(at);
        }
    }
}

/// Creates the missing directories.
fn make(
    destination: &Destination,
    directories: Vec<ExpectedDirectory>,
) -> Result<Vec<ExpectedDirectory>, Refused> {
    let mut made = Vec::new();
    for directory in directories {
        match destination.create_directory(&directory) {
            Ok(true) => made.push(directory),
            Ok(false) => {}
            Err(error) => return Err(storage(directory.path.to_string(), error)),
        }
    }
    Ok(made)
}

/// Parts from earlier transfers of files in the manifest.
fn resume(
    destination: &Destination,
    files: &[Expected],
    unchanged: &HashSet<u32>,
    arrived: &Arc<AtomicU64>,
) -> HashMap<u32, Content> {
    let mut resumed = HashMap::new();
    for (at, file) in (0..).zip(files) {
        if unchanged.contains(&at) {
            destination.remove_leftover(file);
        } else if resumed.len() < RESUMED_MAX {
            resumed
                .extend(Content::resume(destination, file, Arc::clone(arrived)).map(|content| (at, content)));
        }
    }
    resumed
}

fn storage(path: String, error: io::Error) -> Refused {
    (Refusal::Storage, TransferError::Write { path, error })
}

/// Signals a refusal to the sender.
async fn settled<T>(session: &mut Session, outcome: Result<T, Refused>) -> Result<T, TransferError> {
    match outcome {
        Ok(settled) => Ok(settled),
        Err((refusal, error)) => {
            // The sender composes its own message for existing files.
            let reason = match &error {
                TransferError::Exists(path) => path.clone(),
                error => error.to_string(),
            };
            session.refuse(refusal, reason).await;
            Err(error)
        }
    }
}
