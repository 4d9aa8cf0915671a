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
    manifest::{Expected, Received},
    message::{self, Fault, FromReceiver, FromSender, Refusal, Work},
    pipe,
    progress::{Reporter, Summary},
    session::{FINAL_PATIENCE, Session},
};

/// Most files between their first byte and their final name.
const OPEN_FILES_MAX: usize = 256;

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
    placed: usize,
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
    Exists,
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

impl Transfer<'_> {
    pub(super) async fn run(
        mut session: Session,
        destination: &Destination,
        reporter: &mut Reporter,
    ) -> Result<(), TransferError> {
        let manifest = match read_manifest(&mut session).await? {
            Announced::Manifest(manifest) => manifest,
            Announced::Pipe(name) => return pipe::receive_file(session, destination, name, reporter).await,
        };
        reporter.misleading(&manifest.misleading);
        let total = manifest.bytes();
        let arrived = Arc::<AtomicU64>::default();
        let Agreement { files, unchanged, resumed, made } =
            Agreement::reach(&mut session, destination, manifest, &arrived).await?;
        let bytes_of = |at: &u32| files.get(*at as usize).map_or(0, |file| file.bytes);
        for (&file, content) in &resumed {
            arrived.fetch_add(bytes_of(&file) - content.gaps().len(), Relaxed);
            session.say(&FromReceiver::Missing { file, gaps: content.gaps().said() }).await?;
        }
        for &file in &unchanged {
            arrived.fetch_add(bytes_of(&file), Relaxed);
            session.say(&FromReceiver::Have { file }).await?;
        }
        session.say(&FromReceiver::Accepted).await?;
        let peer = session.connection.remote_address().to_string();
        reporter.start(files.len(), total, &peer, session.connection.is_rc3());

        let to_come: Vec<u32> = (0..).take(files.len()).filter(|at| !unchanged.contains(at)).collect();
        let has_stream = |at: &u32| match resumed.get(at) {
            Some(content) => !content.gaps().is_empty(),
            None => bytes_of(at) > 0,
        };
        let mut transfer = Transfer {
            session,
            destination,
            streams: to_come.iter().copied().filter(has_stream).collect(),
            work: JoinSet::new(),
            hashes: to_come.into_iter().map(|at| (at, None)).collect(),
            resumed,
            contents: HashMap::new(),
            placed: 0,
            arrived,
            files,
        };
        transfer.receive_files(reporter).await?;

        let Transfer { mut session, files, .. } = transfer;
        let directories = destination.clone();
        // Inner directories first, while the outer ones are still open.
        let finish = move || made.iter().rev().try_for_each(|made| directories.finish_directory(made));
        session.blocking(Work::Storing, finish).await?.map_err(|error| TransferError::Local {
            what: "set the permissions of a directory".to_owned(),
            error,
        })?;
        let seconds = reporter.elapsed();
        let stats = session.connection.stats().received;
        reporter.progress(total);
        session.send_final(&FromReceiver::Finished).await;
        reporter.done(Summary {
            files: files.len(),
            unchanged_files: unchanged.len(),
            bytes: total,
            seconds,
            bytes_per_second: total as f64 / seconds.max(1e-9),
            primary_bytes: stats.primary_bytes,
            rlp_bytes: stats.rlp_bytes.iter().skip(1).copied().collect(),
            duplicate_bytes: stats.duplicate_bytes,
            steered_seconds: None,
            path: None,
        });
        // The sender closes after it received this; closing first could cut it off.
        let _ = timeout(FINAL_PATIENCE, session.connection.closed()).await;
        Ok(())
    }

    async fn receive_files(&mut self, reporter: &mut Reporter) -> Result<(), TransferError> {
        let connection = self.session.connection.clone();
        let all = self.hashes.len();
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.placed < all {
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
                        Err(error) => return Err(self.fail(at, error.into()).await),
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
        let file = self.file(at).filter(|file| file.bytes == 0)?;
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
                self.placed += 1;
                if let Some(file) = self.file(at) {
                    reporter.file(&file.path, file.bytes);
                }
                self.session.say(&FromReceiver::FileDone { file: at }).await
            }
            TaskDone::Received(at, Err(error)) | TaskDone::Placed(at, Err(error)) => {
                Err(self.fail(at, error).await)
            }
        }
    }

    /// Verifies and names a file once it has both its content and its hash.
    fn place(&mut self, at: u32) {
        let Some(&Some(hash)) = self.hashes.get(&at) else { return };
        if let Some(arrived) = self.contents.remove(&at) {
            self.work.spawn_blocking(move || TaskDone::Placed(at, arrived.place(hash)));
        }
    }

    /// Signals to the sender why the transfer ends.
    async fn fail(&mut self, at: u32, error: FileError) -> TransferError {
        let path = self.file(at).map_or_else(String::new, |file| file.path.to_string());
        let (fault, error) = match error {
            FileError::Storage(error) => (Fault::Storage, TransferError::Write { path, error }),
            FileError::NotVerified => (Fault::NotVerified, TransferError::NotVerified(path)),
            FileError::Exists => (Fault::Exists, TransferError::Exists(path)),
            FileError::Length => {
                (Fault::NotVerified, TransferError::Protocol(format!("{path} is not as long as announced")))
            }
            // The sender may have given the reason on the control stream.
            FileError::Lost(error) => return self.why_reset(error).await,
        };
        let reason = message::reason(&error);
        self.session.send_final(&FromReceiver::FileFailed { file: at, fault, reason }).await;
        error
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
        self.files.get(usize::try_from(at).ok()?)
    }
}

impl Arrived {
    /// Gives the file its name if its hash matches.
    fn place(self, hash: [u8; 32]) -> Result<(), FileError> {
        if self.hash != hash {
            self.content.discard();
            return Err(FileError::NotVerified);
        }
        self.content.place().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists,
            _ => FileError::Storage(error),
        })
    }
}

/// What a sender announces.
enum Announced {
    /// Files and directories.
    Manifest(Received),
    /// A stream of unknown length, to be stored under this name.
    Pipe(Option<Vec<u8>>),
}

/// Reads up to the end of the manifest.
async fn read_manifest(session: &mut Session) -> Result<Announced, TransferError> {
    let mut manifest = Received::default();
    loop {
        session.sign_of_life(Work::Comparing).await?;
        match session.hear().await? {
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
            FromSender::ManifestEnd => return Ok(Announced::Manifest(manifest)),
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
