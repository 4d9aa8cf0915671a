//! One arriving file or pipe: its stream, its content, and why it may not be kept.

use std::{
    io::{self, Stdout, Write, stdout},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use rc3_net::{ReadError, RecvStream, file::RecvFileError};
use tokio::{
    sync::mpsc,
    task::{JoinError, spawn_blocking},
};

use super::{
    content::Content, destination::Destination, expected::Expected, outbound::CHUNKS_AHEAD, part::PlaceError,
    verdict::Verdict,
};

/// Bytes of one read of a pipe.
const CHUNK_BYTES: usize = 64 << 10;

/// A file's content, without its final name.
pub(super) struct Arrived {
    /// `None` on standard output.
    pub(super) content: Option<Content>,
    /// If it is complete.
    hash: Option<blake3::Hash>,
    pub(super) bytes: u64,
}

impl Arrived {
    /// All of a file without missing bytes.
    pub(super) fn complete(mut content: Content) -> io::Result<Box<Self>> {
        let (hash, bytes) = (Some(content.complete()?), content.bytes());
        Ok(Box::new(Self { content: Some(content), hash, bytes }))
    }

    /// Gives the file its name if its hash matches; returns its length.
    pub(super) fn place(self, hash: [u8; 32]) -> Result<u64, FileError> {
        match (self.hash.filter(|complete| *complete == hash), self.content) {
            (Some(hash), Some(content)) => content.place(hash)?,
            (Some(_), None) => {}
            (None, content) => {
                content.into_iter().for_each(Content::discard);
                return Err(FileError::Settled(Verdict::Damaged));
            }
        }
        Ok(self.bytes)
    }
}

/// Why a file was not kept.
pub(super) enum FileError {
    /// Others may arrive.
    Settled(Verdict),
    /// Every other one would meet it.
    Storage(io::Error),
    /// Standard output takes no more.
    Output(io::Error),
    /// The sender broke the stream off, and says why.
    Broken(Option<Box<Arrived>>),
    Lost(RecvFileError),
    Length,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Verdict::of(&error).map_or_else(|| Self::Storage(error), Self::Settled)
    }
}

impl From<PlaceError> for FileError {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Taken => Self::Settled(Verdict::Conflict),
            PlaceError::Shared => Self::Settled(Verdict::Shared),
            PlaceError::Io(error) => error.into(),
        }
    }
}

impl From<JoinError> for FileError {
    fn from(error: JoinError) -> Self {
        Self::Storage(error.into())
    }
}

/// Receives a file's stream into its part, which is `resumed` or new; a pipe without a destination goes to standard output.
pub(super) async fn receive(
    stream: RecvStream,
    destination: Option<Destination>,
    file: Expected,
    resumed: Option<Content>,
    arrived: Arc<AtomicU64>,
) -> Result<Box<Arrived>, FileError> {
    let Some(destination) = destination else {
        return receive_pipe(stream, Sink::Output(stdout()), &arrived).await;
    };
    let is_pipe = file.pipe;
    let content = match resumed {
        Some(content) => content,
        None => spawn_blocking(move || Content::create(&destination, &file, Arc::clone(&arrived))).await??,
    };
    if is_pipe {
        return receive_pipe(stream, Sink::File(Box::new(content)), &AtomicU64::new(0)).await;
    }
    receive_content(stream, content).await
}

/// Writes a stream's bytes at their offsets, in order of arrival.
async fn receive_content(mut stream: RecvStream, content: Content) -> Result<Box<Arrived>, FileError> {
    let missing = content.gaps().len();
    let content = Arc::new(content);
    let received = stream.recv_file(Arc::clone(&content), missing).await;
    match received {
        Ok(bytes) if bytes == missing => {}
        Ok(_) | Err(RecvFileError::TooLong) => return Err(FileError::Length),
        Err(RecvFileError::Write { error, .. }) => return Err(error.into()),
        Err(RecvFileError::SourceFailed | RecvFileError::Reset(_)) => {
            let content = Arc::into_inner(content);
            let arrived = content.map(|content| Arrived { content: Some(content), hash: None, bytes: 0 });
            return Err(FileError::Broken(arrived.map(Box::new)));
        }
        Err(error) => return Err(FileError::Lost(error)),
    }
    let completed = spawn_blocking(move || match Arc::into_inner(content) {
        Some(content) => Arrived::complete(content),
        None => Err(io::Error::other("the file is still in use")),
    });
    Ok(completed.await??)
}

/// Where the bytes of a pipe go.
enum Sink {
    File(Box<Content>),
    Output(Stdout),
}

impl Sink {
    /// Writes chunks until no more can come.
    fn write_all(mut self, mut chunks: mpsc::Receiver<Bytes>) -> Result<Self, FileError> {
        while let Some(chunk) = chunks.blocking_recv() {
            match &mut self {
                Self::File(content) => content.append(&chunk)?,
                // It would keep the rest of a line, for which a reader may wait.
                Self::Output(output) => {
                    output.write_all(&chunk).and_then(|()| output.flush()).map_err(FileError::Output)?;
                }
            }
        }
        Ok(self)
    }
}

/// Passes a whole stream on.
async fn receive_pipe(
    mut stream: RecvStream,
    sink: Sink,
    passed: &AtomicU64,
) -> Result<Box<Arrived>, FileError> {
    let mut hasher = blake3::Hasher::new();
    let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
    let writing = spawn_blocking(move || sink.write_all(chunks));
    loop {
        match stream.read_chunk(CHUNK_BYTES, true).await {
            Ok(None) => break,
            Ok(Some(chunk)) => {
                hasher.update(&chunk.bytes);
                passed.fetch_add(chunk.bytes.len() as u64, Relaxed);
                if sender.send(chunk.bytes).await.is_err() {
                    break;
                }
            }
            Err(ReadError::Reset(_)) => return Err(FileError::Broken(None)),
            Err(ReadError::ConnectionLost(error)) => {
                return Err(FileError::Lost(RecvFileError::ConnectionLost(error)));
            }
            Err(_) => return Err(FileError::Lost(RecvFileError::ClosedStream)),
        }
    }
    drop(sender);
    let content = match writing.await?? {
        Sink::File(content) => Some(*content),
        Sink::Output(_) => None,
    };
    Ok(Box::new(Arrived { content, hash: Some(hasher.finalize()), bytes: hasher.count() }))
}
