//! The memory of paths in a file, for later processes: whether a path honours priorities, the delivery rate and the
//! minimum round trip, and the marks that a check recommends.
//!
//! It is used like the saved parameters of RFC 9959: a part of the rate to start with, until the path confirms it; a
//! verdict until the first contradicting trial. Entries are by destination and by this host's network, and are valid
//! for [`GOOD_FOR`]. The file is text, one line each:
//!
//! ```text
//! 192.0.2.7 from=10.0.0.3 at=1790000000 score=-6 rate=93000000 rtt_us=20100 measured=1200000 marks=cs1 marked=1790000100
//! ```
//!
//! `from` is the source address of packets (for IPv6 its first 64 bits), `at` and `marked` are seconds since 1970,
//! `score` is [`DestinationVerdict::score`], `rate` is in bits per second of UDP payload, `marks` is a [`MarkChoice`].
//! Invalid lines are ignored. Processes that use the same file at the same time add to it. No problem with the file is
//! an error of a connection.
//!
//! It lists this host's peers of the last day. Only the user may read it.

mod entry;
mod file;
mod network;

use std::{
    cmp,
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rc3_core::{DestinationVerdict, KnownPath, NEAR_PATHS_MAX, are_neighbours};

use self::{
    entry::{Evidence, PathEntry, PathKey},
    file::{ENTRIES_MAX, PathEntries},
};
use crate::marks::MarkChoice;

/// How long the file's entries are valid. Longer than within a process, since they count less: see
/// [`rc3_core::Endpoint::import_path`].
pub const GOOD_FOR: Duration = Duration::from_secs(86_400);

/// A file that endpoints read and add to. Clones share it.
#[derive(Debug, Clone)]
pub struct PathMemory(Arc<PathFile>);

#[derive(Debug)]
struct PathFile {
    path: PathBuf,
    held: Mutex<KnownPaths>,
    /// Held while the file is written, so that who finds nothing new to write knows that it is there.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct KnownPaths {
    /// The file's entries when it was last read or written.
    table: PathEntries,
    /// Entries that the file does not have yet.
    unsaved: PathEntries,
    /// The same, by destination and local bound address; their network is looked up later.
    learned: HashMap<(IpAddr, IpAddr), Evidence>,
    /// A save is pending.
    scheduled: bool,
}

impl KnownPaths {
    fn is_empty(&self) -> bool {
        self.table.is_empty() && self.unsaved.is_empty()
    }
}

impl PathMemory {
    /// Reads the file, if it exists. An unreadable file counts as empty.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let table = file::read(&path, seconds(SystemTime::now()), GOOD_FOR);
        let held = Mutex::new(KnownPaths { table, ..KnownPaths::default() });
        Self(Arc::new(PathFile { path, held, writing: Mutex::default() }))
    }

    /// The record of the path to `remote` from a socket bound to `bound`.
    pub fn known(&self, remote: SocketAddr, bound: IpAddr) -> Option<KnownPath> {
        let now = seconds(SystemTime::now());
        let (network, entry) = self.entry(now, remote.ip(), bound)?;
        Some(entry.found?.about(now, network))
    }

    /// Records of paths that may have the slowest link of an unknown one: those to neighbours of `remote`, then those from the
    /// same network, each from the newest on, at most [`NEAR_PATHS_MAX`].
    pub fn near(&self, remote: SocketAddr, bound: IpAddr) -> Vec<(IpAddr, KnownPath)> {
        if self.held().is_empty() {
            return Vec::new();
        }
        let destination = remote.ip().to_canonical();
        let Some(network) = network::to(destination, bound) else { return Vec::new() };
        let now = seconds(SystemTime::now());
        let held = self.held();
        let mut near: Vec<_> = held
            .table
            .iter()
            .chain(&held.unsaved)
            .map(|(key, entry)| (are_neighbours(key.destination, destination), key, entry))
            .filter(|(is_neighbour, key, _)| *is_neighbour || key.network == network)
            .filter_map(|(is_neighbour, key, entry)| {
                let found = entry.good(now, GOOD_FOR)?.found?;
                Some((cmp::Reverse((is_neighbour, found.at)), key.destination, found.about(now, key.network)))
            })
            .collect();
        near.sort_unstable_by_key(|&(order, ..)| order);
        near.truncate(NEAR_PATHS_MAX);
        near.into_iter().map(|(_, destination, known)| (destination, known)).collect()
    }

    /// The marks that a check recommended for that path.
    pub fn marks(&self, remote: SocketAddr, bound: IpAddr) -> Option<MarkChoice> {
        let (_, entry) = self.entry(seconds(SystemTime::now()), remote.ip(), bound)?;
        let (_, marks) = entry.marks?;
        Some(marks)
    }

    /// Stores the marks that a check recommends. [`Self::save`] writes them.
    pub fn set_marks(&self, remote: SocketAddr, bound: IpAddr, marks: MarkChoice) {
        let destination = remote.ip().to_canonical();
        let Some(network) = network::to(destination, bound) else { return };
        let marks = Some((seconds(SystemTime::now()), marks));
        let entry = PathEntry { found: None, marks };
        self.held().unsaved.entry(PathKey { destination, network }).or_default().merge(entry);
    }

    /// Adds new results to the file, and takes over those of other processes. Blocks while another process does so, at
    /// most for a second, and while another call does so.
    ///
    /// # Errors
    /// An [`io::Error`] if the file cannot be written. The next call tries again.
    pub fn save(&self) -> io::Result<()> {
        let _writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let learned = {
            let mut held = self.held();
            held.scheduled = false;
            std::mem::take(&mut held.learned)
        };
        let mut new = PathEntries::new();
        for ((destination, bound), found) in learned {
            let Some(network) = network::to(destination, bound) else { continue };
            let entry = PathEntry { found: Some(found), marks: None };
            new.entry(PathKey { destination, network }).or_default().merge(entry);
        }
        {
            let mut held = self.held();
            let KnownPaths { table, unsaved, .. } = &mut *held;
            file::add(&mut new, &std::mem::take(unsaved));
            // Known while it is written, which may take long, and afterwards.
            file::add(table, &new);
        }
        if new.is_empty() {
            return Ok(());
        }
        let now = seconds(SystemTime::now());
        match file::merge(&self.0.path, &new, now, GOOD_FOR) {
            Ok(table) => {
                self.held().table = table;
                Ok(())
            }
            Err(error) => {
                file::add(&mut self.held().unsaved, &new);
                Err(error)
            }
        }
    }

    /// Stores what a socket bound to `bound` has learned. Returns whether the caller must arrange a save.
    pub(crate) fn learn(&self, learned: &DestinationVerdict, bound: IpAddr) -> bool {
        let at = SystemTime::now().checked_sub(Instant::now().saturating_duration_since(learned.at));
        let found = Evidence { at: at.map_or(0, seconds), score: learned.score, pace: learned.pace };
        let mut held = self.held();
        let key = (learned.destination, bound);
        if held.learned.len() < ENTRIES_MAX || held.learned.contains_key(&key) {
            held.learned.insert(key, found);
        }
        !std::mem::replace(&mut held.scheduled, true)
    }

    /// The valid part of a record, and its network.
    fn entry(&self, now: u64, destination: IpAddr, bound: IpAddr) -> Option<(IpAddr, PathEntry)> {
        let destination = destination.to_canonical();
        let known = |held: &KnownPaths| {
            held.table.keys().chain(held.unsaved.keys()).any(|key| key.destination == destination)
        };
        if !known(&self.held()) {
            return None;
        }
        let key = PathKey { destination, network: network::to(destination, bound)? };
        let held = self.held();
        let mut entry = held.table.get(&key).copied().unwrap_or_default();
        entry.merge(held.unsaved.get(&key).copied().unwrap_or_default());
        Some((key.network, entry.good(now, GOOD_FOR)?))
    }

    fn held(&self) -> MutexGuard<'_, KnownPaths> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Since 1970.
fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs::File, net::Ipv4Addr, thread};

    use super::*;

    #[test]
    fn a_save_waits_for_one_that_is_under_way() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("paths");
        let memory = PathMemory::open(&file);
        let local = IpAddr::from(Ipv4Addr::LOCALHOST);
        memory.set_marks((local, 4433).into(), local, MarkChoice::Cs1);
        let other_process = File::create(directory.path().join("paths.lock")).unwrap();
        rustix::fs::flock(&other_process, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let first = thread::spawn({
            let memory = memory.clone();
            move || memory.save()
        });
        while !memory.held().unsaved.is_empty() {
            thread::yield_now();
        }
        assert_eq!(
            memory.marks((local, 4433).into(), local),
            Some(MarkChoice::Cs1),
            "known while it is written"
        );
        let release = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(other_process);
        });
        memory.save().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("marks=cs1"), "{text}");
        first.join().unwrap().unwrap();
        release.join().unwrap();
    }
}
