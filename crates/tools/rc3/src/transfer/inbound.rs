//! One transfer at the receiver, from the manifest to the last file.
//!
//! Each file has its own task, which writes chunks at their offsets in order of arrival. Placing it (verify, mode,
//! time, name) waits for the sender's hash. Memory: half a megabyte per arriving file, plus the connection's windows.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rc3_net::{RecvStream, file::RecvFileError};
use tokio::{
    task::{JoinError, JoinSet},
    time::{MissedTickBehavior, timeout},
};

use super::{
    agreement::Agreement,
    background,
    content::Content,
    destination::Destination,
    error::TransferError,
    lost,
    manifest::{Expected, ExpectedDirectory, Received},
    message::{self, Fault, FromReceiver, FromSender, Refusal, Work},
    outcome::Unkept,
    pipe,
    places::is_name_fault,
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
    /// Files with a stream, in the order of their streams.
    streams: VecDeque<u32>,
    work: JoinSet<TaskDone>,
    /// The sender's hashes, for files that it has read completely; `None` for the others.
    hashes: HashMap<u32, Option<[u8; 32]>>,
    /// Files from an earlier transfer, until their streams arrive.
    resumed: HashMap<u32, Content>,
    /// Complete content by file, until its hash arrives.
    contents: HashMap<u32, Box<Arrived>>,
    /// Files in place, or given up.
    settled: usize,
    unkept: Unkept,
    arrived: Arc<AtomicU64>,
}

/// A file's complete content, without its final name.
struct Arrived {
    content: Content,
    hash: blake3::Hash,
}

/// The result of a file's task.
enum TaskDone {
    Received(u32, Result<Box<Arrived>, FileError>),
    Placed(u32, Result<(), FileError>),
}

/// Why a file was not kept.
enum FileError {
    Storage(io::Error),
    NotVerified,
    Lost(RecvFileError),
    Length,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<JoinError> for FileError {
    fn from(error: JoinError) -> Self {
        Self::Storage(error.into())
    }
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
        reporter.files_there(unchanged_files);
        let (mut transfer, links, directories) = Self::new(session, destination, agreement, arrived);
        transfer.receive_files(reporter).await?;
        transfer.make_links(links, reporter).await?;

        let Transfer { mut session, files, unkept, .. } = transfer;
        finish(&mut session, destination, directories).await?;
        let seconds = reporter.elapsed();
        let stats = session.connection.stats().received;
        session.send_final(&FromReceiver::Finished).await;
        reporter.done(Summary {
            files: files.len(),
            unchanged_files,
            bytes: total,
            seconds,
            bytes_per_second: total as f64 / seconds.max(1e-9),
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
        let Agreement { files, to_come, links, unkept, resumed, directories, .. } = agreement;
        let mut transfer = Transfer {
            session,
            destination,
            files,
            streams: VecDeque::new(),
            work: JoinSet::new(),
            hashes: to_come.iter().map(|&at| (at, None)).collect(),
            resumed,
            contents: HashMap::new(),
            settled: 0,
            unkept,
            arrived,
        };
        transfer.streams = to_come.into_iter().filter(|&at| transfer.has_stream(at)).collect();
        (transfer, links, directories)
    }

    fn has_stream(&self, at: u32) -> bool {
        match self.resumed.get(&at) {
            Some(content) => !content.gaps().is_empty(),
            None => self.file(at).is_some_and(|file| file.bytes > file.holes.len()),
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
        let all = self.hashes.len();
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.settled < all {
            let room = self.work.len() + self.contents.len() < OPEN_FILES_MAX;
            tokio::select! {
                stream = connection.accept_uni(), if room && !self.streams.is_empty() => {
                    let stream = stream.map_err(lost)?;
                    self.begin(stream).await?;
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
    async fn begin(&mut self, stream: RecvStream) -> Result<(), TransferError> {
        let Some(at) = self.streams.pop_front() else { return Ok(()) };
        let Some(file) = self.file(at).cloned() else { return Ok(()) };
        let (destination, arrived) = (self.destination.clone(), Arc::clone(&self.arrived));
        let resumed = self.resumed.remove(&at);
        self.work.spawn(async move {
            let content = match resumed {
                Some(content) => Ok(content),
                None => create(destination, file, arrived).await,
            };
            TaskDone::Received(at, async { receive_content(stream, content?).await }.await)
        });
        Ok(())
    }

    async fn on_message(&mut self, message: FromSender) -> Result<(), TransferError> {
        match message {
            FromSender::FileSent { file: at, hash } => {
                match self.hashes.get_mut(&at) {
                    Some(none @ None) => *none = Some(hash),
                    Some(_) => return Err(TransferError::Protocol("a file sent twice".to_owned())),
                    None => return Err(TransferError::Protocol("a file outside the agreement".to_owned())),
                }
                if let Some(content) = self.without_stream(at) {
                    match content.and_then(completed) {
                        Ok(arrived) => drop(self.contents.insert(at, arrived)),
                        Err(error) => return self.give_up(at, error.into()).await,
                    }
                }
                self.place(at);
                Ok(())
            }
            FromSender::Abort { reason } => Err(TransferError::peer(&reason)),
            _ => Err(TransferError::Protocol("an unexpected message".to_owned())),
        }
    }

    /// The content of a file without missing bytes: it has no stream that would complete it.
    fn without_stream(&mut self, at: u32) -> Option<io::Result<Content>> {
        if self.resumed.get(&at).is_some_and(|content| content.gaps().is_empty()) {
            return self.resumed.remove(&at).map(Ok);
        }
        let file = self.file(at).filter(|file| file.bytes == file.holes.len())?;
        Some(Content::create(self.destination, file, Arc::clone(&self.arrived)))
    }

    async fn on_task_done(&mut self, done: TaskDone, reporter: &mut Reporter) -> Result<(), TransferError> {
        match done {
            TaskDone::Received(at, Ok(content)) => {
                self.contents.insert(at, content);
                self.place(at);
                Ok(())
            }
            TaskDone::Placed(at, Ok(())) => {
                self.settled += 1;
                if let Some(file) = self.file(at) {
                    reporter.file(&file.path, file.bytes);
                }
                self.session.say(&FromReceiver::FileDone { file: at }).await
            }
            TaskDone::Received(at, Err(error)) | TaskDone::Placed(at, Err(error)) => {
                self.give_up(at, error).await
            }
        }
    }

    /// Goes on without a file, if the others can arrive.
    async fn give_up(&mut self, at: u32, error: FileError) -> Result<(), TransferError> {
        self.fail(at, error).await?;
        self.settled += 1;
        Ok(())
    }

    /// Verifies and names a file once it has both its content and its hash.
    fn place(&mut self, at: u32) {
        let Some(&Some(hash)) = self.hashes.get(&at) else { return };
        if let Some(arrived) = self.contents.remove(&at) {
            self.work.spawn_blocking(move || TaskDone::Placed(at, arrived.place(hash)));
        }
    }

    /// Signals to the sender that a file is not kept; an error if the transfer ends.
    async fn fail(&mut self, at: u32, error: FileError) -> Result<(), TransferError> {
        let Some(path) = self.file(at).map(|file| file.path.clone()) else { return Ok(()) };
        let (fault, error) = match error {
            FileError::Storage(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (Fault::Exists, None)
            }
            FileError::Storage(error) if is_name_fault(&error) => (Fault::Name, None),
            FileError::NotVerified => (Fault::NotVerified, None),
            FileError::Storage(error) => {
                (Fault::Storage, Some(TransferError::Write { path: path.to_string(), error }))
            }
            FileError::Length => {
                let text = format!("{path} is not as long as announced");
                (Fault::NotVerified, Some(TransferError::Protocol(text)))
            }
            // The sender may have given the reason on the control stream.
            FileError::Lost(error) => return Err(self.why_reset(error).await),
        };
        let reason = error.as_ref().map_or_else(String::new, message::reason);
        let failed = FromReceiver::FileFailed { file: at, fault, reason };
        if let Some(error) = error {
            self.session.send_final(&failed).await;
            return Err(error);
        }
        self.unkept.add_fault(path, fault);
        self.session.say(&failed).await
    }

    /// For a reset stream, an abort message has the reason.
    async fn why_reset(&mut self, error: RecvFileError) -> TransferError {
        if let RecvFileError::ConnectionLost(error) = error {
            return lost(error);
        }
        let explained = self.session.abort_reason().await;
        explained.unwrap_or_else(|| TransferError::Lost(error.to_string()))
    }

    fn file(&self, at: u32) -> Option<&Expected> {
        self.files.get(self.files.binary_search_by_key(&at, |file| file.index).ok()?)
    }
}

/// Sets modes and times of directories, and syncs what the policy wants.
async fn finish(
    session: &mut Session,
    destination: &Destination,
    directories: Vec<(ExpectedDirectory, bool)>,
) -> Result<(), TransferError> {
    let there = destination.clone();
    let finish = move || {
        // Inner directories first, while the outer ones are still open.
        let mut inner_first = directories.iter().rev();
        inner_first.try_for_each(|(directory, new)| there.finish_directory(directory, *new))?;
        there.finish()
    };
    let finished = session.blocking(Work::Storing, finish).await?;
    finished.map_err(|error| TransferError::Local { what: "complete the directories".to_owned(), error })
}

impl Arrived {
    /// Gives the file its name if its hash matches.
    fn place(self, hash: [u8; 32]) -> Result<(), FileError> {
        if self.hash != hash {
            self.content.discard();
            return Err(FileError::NotVerified);
        }
        self.content.place(self.hash).map_err(FileError::Storage)
    }
}

/// What a sender announces.
enum Announced {
    /// Files and directories, and whether the sender only asks what would happen.
    Manifest(Received, bool),
    /// A stream of unknown length, to be stored under this name.
    Pipe(Option<Vec<u8>>),
}

/// Reads up to the end of the manifest.
async fn read_manifest(session: &mut Session) -> Result<Announced, TransferError> {
    let (mut manifest, mut dry_run) = (Received::default(), false);
    loop {
        session.sign_of_life(Work::Comparing).await?;
        match session.hear_soon("its list of files", Duration::ZERO).await? {
            FromSender::Entry(entry) => {
                if !session.admits(&entry) {
                    let reason = "a file that was not asked for".to_owned();
                    session.refuse(Refusal::Manifest, reason.clone()).await;
                    return Err(TransferError::Protocol(reason));
                }
                if let Err(error) = manifest.add(entry) {
                    session.refuse(Refusal::Manifest, error.to_string()).await;
                    return Err(error.into());
                }
            }
            FromSender::DryRun => dry_run = true,
            FromSender::ManifestEnd => return Ok(Announced::Manifest(manifest, dry_run)),
            FromSender::Pipe { name } => return Ok(Announced::Pipe(name)),
            FromSender::Abort { reason } => return Err(TransferError::peer(&reason)),
            _ => return Err(TransferError::Protocol("an unexpected message".to_owned())),
        }
    }
}

async fn create(
    destination: Destination,
    file: Expected,
    arrived: Arc<AtomicU64>,
) -> Result<Content, FileError> {
    let created = tokio::task::spawn_blocking(move || Content::create(&destination, &file, arrived));
    Ok(created.await??)
}

/// Writes a stream's bytes at their offsets, in order of arrival.
async fn receive_content(mut stream: RecvStream, content: Content) -> Result<Box<Arrived>, FileError> {
    let missing = content.gaps().len();
    let content = Arc::new(content);
    let received = stream.recv_file(Arc::clone(&content), missing).await;
    match received {
        Ok(bytes) if bytes == missing => {}
        Ok(_) | Err(RecvFileError::TooLong) => return Err(FileError::Length),
        Err(RecvFileError::Write { error, .. }) => return Err(FileError::Storage(error)),
        Err(error) => return Err(FileError::Lost(error)),
    }
    let completed = tokio::task::spawn_blocking(move || match Arc::into_inner(content) {
        Some(content) => completed(content),
        None => Err(io::Error::other("the file is still in use")),
    });
    Ok(completed.await??)
}

fn completed(mut content: Content) -> io::Result<Box<Arrived>> {
    let hash = content.complete()?;
    Ok(Box::new(Arrived { content, hash }))
}
