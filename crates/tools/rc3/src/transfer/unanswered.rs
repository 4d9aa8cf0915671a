//! The receiver's answers: one for each file that it awaits.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{
    agreed::Agreed,
    error::TransferError,
    manifest::{Found, SourceEntry},
    message::{Fault, FromReceiver, Kind, Omission, Skip},
    outbound::unwelcome,
    outcome::Unkept,
    progress::Reporter,
};

/// Files about which the receiver still owes a message.
#[derive(Debug)]
pub(super) struct Unanswered(Mutex<State>);

#[derive(Debug)]
struct State {
    files: HashMap<u32, Told>,
    /// Directories that the receiver could not complete.
    directories: HashSet<u32>,
}

/// What the receiver knows of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Announced,
    /// All of this many bytes.
    Sent(u64),
    Omitted(Omission),
}

impl Unanswered {
    pub(super) fn new(found: &Found, agreed: &Agreed) -> Self {
        // A link is complete in the manifest.
        let told = |file: &SourceEntry| if file.is_link() { Told::Sent(0) } else { Told::Announced };
        let open = found.files().filter(|&(at, _)| agreed.is_open(at));
        let files = open.map(|(at, file)| (at, told(file))).collect();
        Self(Mutex::new(State { files, directories: HashSet::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, file: u32, told: Told) {
        if let Some(file) = self.lock().files.get_mut(&file) {
            *file = told;
        }
    }

    /// The file is sent completely.
    pub(super) fn sent(&self, file: u32, bytes: u64) {
        self.tell(file, Told::Sent(bytes));
    }

    /// The file is not sent.
    pub(super) fn omitted(&self, file: u32, omission: Omission) {
        self.tell(file, Told::Omitted(omission));
    }

    /// Whether the receiver still awaits the file.
    pub(super) fn is_open(&self, file: u32) -> bool {
        self.lock().files.contains_key(&file)
    }

    /// Whether every file is settled.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().files.is_empty()
    }

    /// Handles a message about one file, or about a directory at the end.
    pub(super) fn settle(
        &self,
        reply: FromReceiver,
        found: &Found,
        unkept: &mut Unkept,
        reporter: &mut Reporter,
    ) -> Result<(), TransferError> {
        match reply {
            FromReceiver::FileDone { file: at } => match (self.remove_sent(at), found.file(at)) {
                (Some(bytes), Some(file)) => {
                    reporter.file(&file.name, bytes);
                    Ok(())
                }
                _ => Err(unwelcome(reply, found)),
            },
            FromReceiver::FileFailed { file: at, fault, reason } if fault != Fault::Storage => {
                let told = self.lock().files.remove(&at);
                let name = found.file(at).map(|file| file.name.clone());
                match (told, name) {
                    (Some(Told::Omitted(omission)), Some(name)) => unkept.add_omission(name, omission),
                    (Some(_), Some(name)) if fault != Fault::Omitted => {
                        unkept.add_fault(name, fault, &reason)
                    }
                    _ => return Err(unwelcome(FromReceiver::FileFailed { file: at, fault, reason }, found)),
                }
                Ok(())
            }
            FromReceiver::Skip { entry, skip: Skip::Refused(reason) } => {
                let directory = found.entries.get(entry as usize);
                let directory = directory.filter(|entry| matches!(entry.kind, Kind::Directory { .. }));
                match directory.filter(|_| self.lock().directories.insert(entry)) {
                    Some(directory) => unkept.add_skip(directory.name.clone(), Skip::Refused(reason)),
                    None => return Err(TransferError::Protocol("an impossible `Skip`".to_owned())),
                }
                Ok(())
            }
            other => Err(unwelcome(other, found)),
        }
    }

    /// The receiver has the file: its bytes, if that can be.
    fn remove_sent(&self, file: u32) -> Option<u64> {
        let files = &mut self.lock().files;
        let Some(&Told::Sent(bytes)) = files.get(&file) else { return None };
        files.remove(&file);
        Some(bytes)
    }
}
