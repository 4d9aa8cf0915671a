//! One transfer at the receiver, from the manifest to the last file.
//!
//! Each file has its own task, which writes chunks at their offsets in order of arrival. Placing it (verify, mode,
//! time, name) waits for the sender's hash. Memory: half a megabyte per arriving file, plus the connection's windows.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rc3_net::{RecvStream, file::RecvFileError};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, timeout},
};

use super::{
    agreement::Agreement,
    announced::{Announced, read_manifest},
    arrivals::{Arrivals, Version, Violation},
    arriving::{Arrived, FileError, completed, create, receive_content},
    background,
    content::Content,
    destination::Destination,
    error::TransferError,
    expected::{Expected, ExpectedDirectory, Totals},
    faults, lost,
    message::{self, Fault, FromReceiver, FromSender, Kind, Omission, Skip, Work},
    outcome::Unkept,
    pipe,
    progress::{Reporter, Summary},
    session::{FINAL_PATIENCE, Session},
};

/// Most files between their first byte and their final name. With those of all senders, below the usual limit of 1024.
const OPEN_FILES_MAX: usize = 128;
/// Most streams of a sender with the ticket: small files that fill a long path.
const STREAMS_MAX: u32 = 4096;

/// One transfer.
pub(super) struct Transfer<'a> {
    session: Session,
    destination: &'a Destination,
    files: Vec<Expected>,
    arrivals: Arrivals<Box<Arrived>>,
    work: JoinSet<TaskDone>,
    /// Files from an earlier transfer, until their streams arrive.
    resumed: HashMap<u32, Content>,
    /// Lengths of all files.
    totals: Totals,
    unkept: Unkept,
    arrived: Arc<AtomicU64>,
}

/// The result of a file's task.
enum TaskDone {
    Received(Version, Result<Box<Arrived>, FileError>),
    Placed(u32, Result<(), FileError>),
}

/// How a transfer ended without an error that ends it early.
pub(super) enum Finish {
    /// The sender only asked.
    DryRun,
    /// All files are settled: in place, or reported in the error.
    Complete(Result<(), TransferError>),
}

impl Transfer<'_> {
    pub(super) async fn run(
        mut session: Session,
        destination: &Destination,
        reporter: &mut Reporter,
    ) -> Result<Finish, TransferError> {
        let destination = &destination.begin_transfer();
        let (manifest, dry_run) = match read_manifest(&mut session).await? {
            Announced::Manifest(manifest, dry_run) => (manifest, dry_run),
            Announced::Pipe(name) => {
                pipe::receive_file(session, destination, name, reporter).await?;
                return Ok(Finish::Complete(Ok(())));
            }
        };
        session.connection.set_max_concurrent_uni_streams(STREAMS_MAX.into());
        let total = manifest.bytes();
        if !dry_run {
            reporter.misleading(&manifest.misleading);
        }
        let arrived = Arc::<AtomicU64>::default();
        let agreement = Agreement::reach(&mut session, destination, manifest, &arrived, dry_run).await?;
        arrived.store(total.saturating_sub(agreement.needed), Relaxed);
        agreement.say(&mut session, dry_run).await?;
        if dry_run {
            let _ = timeout(FINAL_PATIENCE, session.connection.closed()).await;
            return Ok(Finish::DryRun);
        }
        let peer = session.connection.remote_address().to_string();
        let unchanged_files = agreement.unchanged_files();
        reporter.start(agreement.files.len(), total, &peer, session.connection.is_rc3());
        reporter.files_there(unchanged_files, agreement.there);
        let (mut transfer, links, directories) = Self::new(session, destination, agreement, arrived);
        transfer.receive_files(reporter).await?;
        transfer.make_links(links, reporter).await?;

        let Transfer { mut session, mut unkept, .. } = transfer;
        finish(&mut session, destination, directories, &mut unkept).await?;
        let (files, bytes) = reporter.in_place();
        let seconds = reporter.elapsed();
        let stats = session.connection.stats().received;
        session.send_final(&FromReceiver::Finished).await;
        reporter.done(Summary {
            files,
            unchanged_files,
            bytes,
            seconds,
            bytes_per_second: bytes as f64 / seconds.max(1e-9),
            primary_bytes: stats.primary_bytes,
            rlp_bytes: stats.rlp_bytes.iter().skip(1).copied().collect(),
            duplicate_bytes: stats.duplicate_bytes,
            steered_seconds: None,
            path: None,
        });
        unkept.report(reporter);
        // The sender closes after it received this; closing first could cut it off.
        let _ = timeout(FINAL_PATIENCE, session.connection.closed()).await;
        Ok(Finish::Complete(unkept.result(0)))
    }

    fn new(
        session: Session,
        destination: &Destination,
        agreement: Agreement,
        arrived: Arc<AtomicU64>,
    ) -> (Transfer<'_>, Vec<Expected>, Vec<(ExpectedDirectory, bool)>) {
        let Agreement { files, to_come, links, unkept, resumed, directories, totals, .. } = agreement;
        let mut transfer = Transfer {
            session,
            destination,
            files,
            arrivals: Arrivals::new(std::iter::empty()),
            work: JoinSet::new(),
            resumed,
            totals,
            unkept,
            arrived,
        };
        transfer.arrivals = Arrivals::new(to_come.into_iter().map(|at| (at, transfer.has_stream(at))));
        (transfer, links, directories)
    }

    fn has_stream(&self, at: u32) -> bool {
        match self.resumed.get(&at) {
            Some(content) => !content.gaps().is_empty(),
            None => self.file(at).is_some_and(Expected::has_stream),
        }
    }

    /// Makes the links, after all files.
    async fn make_links(
        &mut self,
        links: Vec<Expected>,
        reporter: &mut Reporter,
    ) -> Result<(), TransferError> {
        let there = self.destination.clone();
        let making = move || {
            let make = |link: Expected| {
                let made = there.make_link(&link, link.link.as_deref().unwrap_or_default());
                (link, made)
            };
            links.into_iter().map(make).collect::<Vec<_>>()
        };
        for (link, made) in self.session.blocking(Work::Storing, making).await? {
            match made {
                Ok(()) => {
                    reporter.file(&link.path, 0);
                    self.session.say(&FromReceiver::FileDone { file: link.index }).await?;
                }
                Err(error) => self.fail(link.index, error.into()).await?,
            }
        }
        Ok(())
    }

    async fn receive_files(&mut self, reporter: &mut Reporter) -> Result<(), TransferError> {
        let connection = self.session.connection.clone();
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.arrivals.is_done() {
            let room = self.work.len() + self.arrivals.complete() < OPEN_FILES_MAX;
            tokio::select! {
                stream = connection.accept_uni(), if room && self.arrivals.has_streams() => {
                    self.begin(stream.map_err(lost)?);
                }
                message = self.session.hear() => self.on_message(message?).await?,
                Some(done) = self.work.join_next() => {
                    let done = done.map_err(background)?;
                    self.on_task_done(done, reporter).await?;
                }
                _ = tick.tick() => {
                    reporter.progress(self.arrived.load(Relaxed));
                    self.session.sign_of_life(Work::Storing).await?;
                }
            }
        }
        Ok(())
    }

    /// The next stream carries the next file that has content.
    fn begin(&mut self, stream: RecvStream) {
        let Some(version) = self.arrivals.next_stream().filter(|&version| self.arrivals.is_wanted(version))
        else {
            return;
        };
        let Some(file) = self.file(version.file).cloned() else { return };
        let (destination, arrived) = (self.destination.clone(), Arc::clone(&self.arrived));
        let resumed = self.resumed.remove(&version.file);
        self.work.spawn(async move {
            let content = match resumed {
                Some(content) => Ok(content),
                None => create(destination, file, arrived).await,
            };
            TaskDone::Received(version, async { receive_content(stream, content?).await }.await)
        });
    }

    async fn on_message(&mut self, message: FromSender) -> Result<(), TransferError> {
        match message {
            FromSender::FileSent { file: at, hash } => {
                self.arrivals.on_sent(at, hash).map_err(violation)?;
                self.complete_without_stream(at).await
            }
            FromSender::Again { file: at, kind } => self.on_again(at, kind),
            FromSender::Omit { file: at, omission } => self.on_omit(at, omission).await,
            FromSender::Abort { reason } => Err(TransferError::peer(&reason)),
            _ => Err(TransferError::Protocol("an unexpected message".to_owned())),
        }
    }

    /// Another version of a file comes; what arrived of the first one is void.
    fn on_again(&mut self, at: u32, kind: Kind) -> Result<(), TransferError> {
        let Ok(place) = self.place_of(at) else { return Err(violation("a file outside the agreement")) };
        let new = self.totals.replace(&self.files[place], kind)?;
        let void = self.arrivals.on_again(at, new.has_stream()).map_err(violation)?;
        self.files[place] = new;
        discard(void, self.resumed.remove(&at));
        Ok(())
    }

    /// Removes content that is void; other content that is not wanted may be continued by another run.
    fn dispose(&self, version: Version, unwanted: Option<Box<Arrived>>) {
        if self.arrivals.is_void(version) {
            discard(unwanted, None);
        }
    }

    /// The sender leaves a file out. What arrived of an unreadable one may be continued later.
    async fn on_omit(&mut self, at: u32, omission: Omission) -> Result<(), TransferError> {
        let void = self.arrivals.on_omit(at, omission == Omission::Changed).map_err(violation)?;
        let resumed = self.resumed.remove(&at);
        if omission == Omission::Changed {
            discard(void, resumed);
        }
        if let Some(file) = self.file(at).filter(|_| !self.arrivals.is_settled(at)) {
            self.unkept.add_omission(file.path.clone(), omission);
        }
        self.give_up(at, FileError::Omitted).await
    }

    /// A file without missing bytes has no stream that would complete it.
    async fn complete_without_stream(&mut self, at: u32) -> Result<(), TransferError> {
        let version = self.arrivals.version(at);
        if let Some(content) = self.without_stream(at) {
            match content.and_then(completed) {
                Ok(arrived) => drop(self.arrivals.on_content(version, arrived)),
                Err(error) => return self.give_up(at, error.into()).await,
            }
        }
        self.place(at);
        Ok(())
    }

    /// The content of a file without missing bytes.
    fn without_stream(&mut self, at: u32) -> Option<io::Result<Content>> {
        if self.arrivals.is_settled(at) {
            return None;
        }
        if self.resumed.get(&at).is_some_and(|content| content.gaps().is_empty()) {
            return self.resumed.remove(&at).map(Ok);
        }
        let file = self.file(at).filter(|file| !file.has_stream())?;
        Some(Content::create(self.destination, file, Arc::clone(&self.arrived)))
    }

    async fn on_task_done(&mut self, done: TaskDone, reporter: &mut Reporter) -> Result<(), TransferError> {
        match done {
            TaskDone::Received(version, Ok(content)) => {
                let unwanted = self.arrivals.on_content(version, content);
                self.dispose(version, unwanted);
                self.place(version.file);
                Ok(())
            }
            TaskDone::Received(version, Err(FileError::Broken(content))) => {
                let unwanted = self.arrivals.on_broken(version, content).map_err(violation)?;
                self.dispose(version, unwanted);
                Ok(())
            }
            TaskDone::Received(version, Err(_)) if !self.arrivals.is_wanted(version) => Ok(()),
            TaskDone::Received(version, Err(error)) => self.give_up(version.file, error).await,
            TaskDone::Placed(at, Ok(())) => {
                self.arrivals.settle(at);
                if let Some(file) = self.file(at) {
                    reporter.file(&file.path, file.bytes);
                }
                self.session.say(&FromReceiver::FileDone { file: at }).await
            }
            TaskDone::Placed(at, Err(error)) => self.give_up(at, error).await,
        }
    }

    /// Goes on without a file, if the others can arrive.
    async fn give_up(&mut self, at: u32, error: FileError) -> Result<(), TransferError> {
        if self.arrivals.settle(at) { self.fail(at, error).await } else { Ok(()) }
    }

    /// Verifies and names a file once it has both its content and its hash.
    fn place(&mut self, at: u32) {
        if let Some((arrived, hash)) = self.arrivals.ready(at) {
            self.work.spawn_blocking(move || TaskDone::Placed(at, arrived.place(hash)));
        }
    }

    /// Signals to the sender that a file is not kept; an error if the transfer ends.
    async fn fail(&mut self, at: u32, error: FileError) -> Result<(), TransferError> {
        let Some(path) = self.file(at).map(|file| file.path.clone()) else { return Ok(()) };
        let (fault, reason) = match error {
            FileError::Storage(error) => match faults::fault(&error) {
                Fault::Storage => {
                    let error = TransferError::Write { path: path.to_string(), error };
                    return self.end(at, Fault::Storage, error).await;
                }
                fault => (fault, error.to_string()),
            },
            FileError::NotVerified => (Fault::NotVerified, String::new()),
            FileError::Shared => (Fault::Shared, String::new()),
            FileError::Omitted => (Fault::Omitted, String::new()),
            FileError::Length => {
                let error = TransferError::Protocol(format!("{path} is not as long as announced"));
                return self.end(at, Fault::NotVerified, error).await;
            }
            FileError::Broken(_) => return Ok(()),
            FileError::Lost(RecvFileError::ConnectionLost(error)) => return Err(lost(error)),
            FileError::Lost(error) => return Err(TransferError::Lost(error.to_string())),
        };
        self.unkept.add_fault(path, fault, &reason);
        self.session.say(&FromReceiver::FileFailed { file: at, fault, reason: message::reason(reason) }).await
    }

    /// Ends the transfer because of a file.
    async fn end(&mut self, file: u32, fault: Fault, error: TransferError) -> Result<(), TransferError> {
        let reason = message::reason(&error);
        self.session.send_final(&FromReceiver::FileFailed { file, fault, reason }).await;
        Err(error)
    }

    fn file(&self, at: u32) -> Option<&Expected> {
        self.files.get(self.place_of(at).ok()?)
    }

    fn place_of(&self, at: u32) -> Result<usize, usize> {
        self.files.binary_search_by_key(&at, |file| file.index)
    }
}

fn violation(what: Violation) -> TransferError {
    TransferError::Protocol(what.to_owned())
}

fn discard(arrived: Option<Box<Arrived>>, resumed: Option<Content>) {
    arrived.map(|arrived| arrived.content).into_iter().chain(resumed).for_each(Content::discard);
}

/// Sets modes and times of directories, and syncs what the policy wants.
async fn finish(
    session: &mut Session,
    destination: &Destination,
    directories: Vec<(ExpectedDirectory, bool)>,
    unkept: &mut Unkept,
) -> Result<(), TransferError> {
    let there = destination.clone();
    let finish = move || {
        let mut refused = Vec::new();
        // Inner directories first, while the outer ones are still open.
        for (directory, new) in directories.into_iter().rev() {
            if let Err(error) = there.finish_directory(&directory, new) {
                refused.push((directory, Skip::Refused(message::reason(error))));
            }
        }
        there.finish().map(|()| refused)
    };
    let finished = session.blocking(Work::Storing, finish).await?;
    let failed = |error| TransferError::Local { what: "complete the directories".to_owned(), error };
    for (directory, skip) in finished.map_err(failed)? {
        session.say(&FromReceiver::Skip { entry: directory.entry, skip: skip.clone() }).await?;
        unkept.add_skip(directory.path, skip);
    }
    Ok(())
}
