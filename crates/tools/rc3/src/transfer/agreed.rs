//! What need not be sent, as the receiver says before it accepts.

use std::collections::{HashMap, HashSet};

use rc3_net::SendStream;
use tokio::time::timeout;

use super::{
    background,
    error::TransferError,
    gaps::{GAPS_MAX, Gaps},
    manifest::{Found, SourceEntry},
    message::{self, Change, FromReceiver, FromSender, Omission, Skip},
    outbound::{Replies, broken, unwelcome},
    outcome::Unkept,
    progress::Reporter,
    source::FileSource,
};

/// Most gaps of all files together: a receiver resumes some hundred files at most.
const ALL_GAPS_MAX: usize = 512 * GAPS_MAX;

/// What need not be sent, and why.
#[derive(Default)]
pub(super) struct Agreed {
    /// Missing ranges of files that the receiver has parts of.
    gaps: HashMap<u32, Gaps>,
    /// Files that the receiver has, by their hashes.
    unchanged: HashSet<u32>,
    /// Entries that the receiver does not create.
    skipped: HashMap<u32, Skip>,
    /// Files of a dry run that exist with other content.
    changes: HashMap<u32, Change>,
    /// Files and links among the skipped entries, and the omitted files.
    skipped_files: HashSet<u32>,
    /// Files that cannot be read.
    omitted: Vec<(u32, Omission)>,
}

impl Agreed {
    /// What a stream carries of a file; `None` if nothing is to be sent, not even its hash.
    pub(super) fn to_send(&self, at: u32, file: &SourceEntry) -> Option<Gaps> {
        if file.is_link() || !self.is_open(at) {
            return None;
        }
        let whole = || Gaps::whole(file.bytes());
        Some(self.gaps.get(&at).cloned().unwrap_or_else(whole).without(&file.holes()))
    }

    pub(super) fn bytes_to_send(&self, found: &Found) -> u64 {
        let gaps = |(at, file)| Some(self.to_send(at, file)?.len());
        found.files().filter_map(gaps).sum()
    }

    /// Files that exist already, links included, and their bytes.
    pub(super) fn there(&self, found: &Found) -> (usize, u64) {
        let same = |skip: &Skip| matches!(skip, Skip::SameTime | Skip::SameLink);
        let skipped = self.skipped.iter().filter(|(_, skip)| same(skip));
        let skipped = skipped.filter_map(|(&entry, _)| found.entries.get(entry as usize));
        let unchanged = self.unchanged.iter().filter_map(|&at| found.file(at));
        skipped.chain(unchanged).fold((0, 0), |(files, bytes), file| (files + 1, bytes + file.bytes()))
    }

    /// Whether the receiver owes a message about a file.
    pub(super) fn is_open(&self, at: u32) -> bool {
        !self.skipped_files.contains(&at) && !self.unchanged.contains(&at)
    }

    pub(super) fn unkept(&self, found: &Found) -> Unkept {
        let mut unkept = Unkept::default();
        let mut skipped: Vec<_> = self.skipped.iter().collect();
        skipped.sort_unstable_by_key(|(entry, _)| **entry);
        for (&entry, skip) in skipped {
            if let Some(entry) = found.entries.get(entry as usize) {
                unkept.add_skip(entry.name.clone(), skip.clone());
            }
        }
        for (at, omission) in &self.omitted {
            if let Some(file) = found.file(*at) {
                unkept.add_omission(file.name.clone(), omission.clone());
            }
        }
        unkept
    }

    pub(super) fn files_to_send(&self, found: &Found) -> usize {
        found.files().filter(|&(at, _)| self.is_open(at)).count()
    }

    /// What happens to a directory, in one word.
    pub(super) fn directory_action(&self, entry: u32) -> &'static str {
        match self.skipped.get(&entry) {
            Some(Skip::Conflict) => "conflict",
            Some(_) => "left-out",
            None => "directory",
        }
    }

    /// What happens to a file, in one word.
    pub(super) fn action(&self, at: u32, entry: u32) -> &'static str {
        match (self.skipped.get(&entry), self.changes.get(&at)) {
            (Some(Skip::SameTime | Skip::SameLink), _) => "same",
            (Some(Skip::Conflict), _) => "conflict",
            (Some(Skip::Name | Skip::Outside | Skip::Shared | Skip::Refused(_)), _) => "left-out",
            (None, _) if self.skipped_files.contains(&at) => "left-out",
            (None, Some(Change::Replace)) => "replace",
            (None, Some(Change::KeepBoth)) => "keep-both",
            (None, None) if self.unchanged.contains(&at) => "same",
            (None, None) if self.gaps.contains_key(&at) => "continue",
            (None, None) => "send",
        }
    }
}

/// Answers the receiver's questions about its existing files, until it accepts.
pub(super) async fn agree(
    replies: &mut Replies<'_>,
    mut reply: FromReceiver,
    control: &mut SendStream,
    found: &Found,
    reporter: &mut Reporter,
) -> Result<Agreed, TransferError> {
    let protocol = |what: &str| TransferError::Protocol(what.to_owned());
    let (mut agreed, mut compared, mut all_gaps) = (Agreed::default(), HashSet::new(), 0);
    loop {
        match reply {
            FromReceiver::Accepted => return Ok(agreed),
            FromReceiver::Working(work) => reporter.waiting(work),
            FromReceiver::Compare { file: at } => {
                let Some(file) = found.file(at).filter(|_| compared.insert(at)) else {
                    return Err(protocol("a comparison of an unknown file, or a second one"));
                };
                let answer = compared_by(file, at, &mut agreed).await?;
                let written = timeout(replies.patience, control.write_chunk(message::encode(&answer).into()));
                let written = written.await.map_err(|_| TransferError::Stalled(replies.patience))?;
                written.map_err(broken)?;
            }
            FromReceiver::Have { file: at } => {
                let contradicts = !compared.contains(&at)
                    || agreed.gaps.contains_key(&at)
                    || agreed.skipped_files.contains(&at);
                if contradicts || !agreed.unchanged.insert(at) {
                    return Err(protocol("`Have` without a comparison"));
                }
            }
            FromReceiver::Missing { file: at, gaps } => {
                all_gaps += gaps.len();
                let contradicts = all_gaps > ALL_GAPS_MAX || !agreed.is_open(at);
                let gaps = found.file(at).and_then(|file| Gaps::parse(&gaps, file.bytes()));
                if contradicts || gaps.is_none_or(|gaps| agreed.gaps.insert(at, gaps).is_some()) {
                    return Err(protocol("impossible gaps"));
                }
            }
            FromReceiver::Skip { entry, skip } => {
                let file = found.file_of_entry(entry);
                let contradicts = file.is_some_and(|at| !agreed.is_open(at) || agreed.gaps.contains_key(&at))
                    || entry as usize >= found.entries.len();
                if contradicts || agreed.skipped.insert(entry, skip).is_some() {
                    return Err(protocol("an impossible `Skip`"));
                }
                agreed.skipped_files.extend(file);
            }
            FromReceiver::Would { file: at, change } => {
                if found.file(at).is_none() || agreed.changes.insert(at, change).is_some() {
                    return Err(protocol("a change of an unknown file"));
                }
            }
            other => return Err(unwelcome(other, found)),
        }
        reply = replies.soon().await?;
    }
}

/// The answer to a comparison: the hash of the file as it is now.
async fn compared_by(file: &SourceEntry, at: u32, agreed: &mut Agreed) -> Result<FromSender, TransferError> {
    let hashed = file.clone();
    let hash = tokio::task::spawn_blocking(move || FileSource::hash(&hashed)).await.map_err(background)?;
    Ok(match hash {
        Ok(hash) => FromSender::Hash { file: at, hash: *hash.as_bytes() },
        Err(error) => {
            let omission = Omission::Unreadable(message::reason(error));
            agreed.skipped_files.insert(at);
            agreed.omitted.push((at, omission.clone()));
            FromSender::Omit { file: at, omission }
        }
    })
}
