//! One arriving file or pipe: its stream, its content, and why it may not be kept.

use std::{
    io::{self, Stdout, Write, stdout},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use rc3_net::{
    ReadError, ReadToEndError, RecvStream,
    file::{RecvFileError, WriteAt},
};
use tokio::{sync::mpsc, task::spawn_blocking};

use super::{
    content::Content,
    destination::Destination,
    expected::Expected,
    lost,
    outbound::CHUNKS_AHEAD,
    verdict::{Fault, Verdict},
};
use crate::error::{Error, ErrorKind, RESTART};

/// Most bytes of a file that is received as a whole before it is written.
const SMALL_BYTES_MAX: u64 = 16 << 10;
/// Bytes of one read of a pipe.
const CHUNK_BYTES: usize = 64 << 10;

/// A file's content, without its final name.
#[derive(Default)]
pub(super) struct Arrived {
    held: Held,
    /// Of what was hashed on arrival and is complete. A stream that the sender broke off has none, and it says why.
    hash: Option<blake3::Hash>,
    bytes: u64,
}

/// Where the content is.
#[derive(Default)]
enum Held {
    /// On standard output, or nowhere.
    #[default]
    Passed,
    File(Box<Content>),
    /// All of a small file, and how to create it.
    Memory(Vec<u8>, Box<dyn FnOnce() -> io::Result<Content> + Send>),
}

impl Arrived {
    /// All of a file without missing bytes.
    pub(super) fn complete(mut content: Content) -> io::Result<Box<Self>> {
        let (hash, bytes) = (Some(content.complete()?), content.bytes());
        Ok(Box::new(Self { held: Held::File(content.into()), hash, bytes }))
    }

    /// Whether the sender broke the stream off.
    pub(super) fn is_broken(&self) -> bool {
        self.hash.is_none() && !matches!(self.held, Held::Memory(..))
    }

    /// Gives the file its name if its hash matches; returns its length.
    pub(super) fn place(self, hash: [u8; 32]) -> Result<u64, Fault> {
        if let Held::Memory(bytes, create) = self.held {
            let content = create()?;
            content.write_all_at(&bytes, 0)?;
            return Self::complete(content)?.place(hash);
        }
        match (self.hash.filter(|complete| *complete == hash), self.held) {
            (Some(hash), Held::File(content)) => content.place(hash)?,
            (Some(_), _) => {}
            (None, Held::File(content)) => {
                content.discard();
                return Err(Fault::Settled(Verdict::Damaged));
            }
            (None, _) => return Err(Fault::Settled(Verdict::Damaged)),
        }
        Ok(self.bytes)
    }

    /// Removes what no run can use.
    pub(super) fn discard(self) {
        if let Held::File(content) = self.held {
            content.discard();
        }
    }
}

/// Whether the file is received as a whole before it is written: threads that wait for each other would cost more than that
/// work.
pub(super) fn is_small(file: &Expected) -> bool {
    !file.pipe && file.data().len() <= SMALL_BYTES_MAX
}

/// Receives a file's stream into its part, which is `resumed` or new; a pipe without a destination goes to standard output.
pub(super) async fn receive(
    stream: RecvStream,
    destination: Option<Destination>,
    file: Expected,
    resumed: Option<Content>,
    arrived: Arc<AtomicU64>,
) -> Result<Box<Arrived>, Fault> {
    let Some(destination) = destination else {
        return receive_pipe(stream, Sink::Output(stdout()), &arrived).await;
    };
    let is_pipe = file.pipe;
    if resumed.is_none() && is_small(&file) {
        let len = file.data().len();
        return receive_small(stream, len, move || Content::create(&destination, &file, arrived)).await;
    }
    let content = match resumed {
        Some(content) => content,
        None => spawn_blocking(move || Content::create(&destination, &file, Arc::clone(&arrived))).await??,
    };
    if is_pipe {
        return receive_pipe(stream, Sink::File(Box::new(content)), &AtomicU64::new(0)).await;
    }
    receive_content(stream, content).await
}

async fn receive_small(
    mut stream: RecvStream,
    len: u64,
    create: impl FnOnce() -> io::Result<Content> + Send + 'static,
) -> Result<Box<Arrived>, Fault> {
    let bytes = match stream.read_to_end(len as usize).await {
        Ok(bytes) if bytes.len() as u64 == len => bytes,
        Ok(_) | Err(ReadToEndError::TooLong) => return Err(Fault::Ended(wrong_length())),
        Err(ReadToEndError::Read(ReadError::Reset(_))) => return Ok(Box::default()),
        Err(ReadToEndError::Read(ReadError::ConnectionLost(error))) => return Err(Fault::Ended(lost(error))),
        Err(error) => return Err(Fault::Ended(Error::lost(error))),
    };
    Ok(Box::new(Arrived { held: Held::Memory(bytes, Box::new(create)), ..Arrived::default() }))
}

fn wrong_length() -> Error {
    Error::protocol("a file that is not as long as announced")
}

/// Writes a stream's bytes at their offsets, in order of arrival.
async fn receive_content(mut stream: RecvStream, content: Content) -> Result<Box<Arrived>, Fault> {
    let missing = content.missing().len();
    let content = Arc::new(content);
    let is_whole = match stream.recv_file(Arc::clone(&content), missing).await {
        Ok(bytes) if bytes == missing => true,
        Ok(_) | Err(RecvFileError::TooLong) => {
            return Err(Fault::Ended(wrong_length()));
        }
        Err(RecvFileError::Write { error, .. }) => return Err(error.into()),
        Err(RecvFileError::SourceFailed | RecvFileError::Reset(_)) => false,
        Err(RecvFileError::ConnectionLost(error)) => return Err(Fault::Ended(lost(error))),
        Err(error) => return Err(Fault::Ended(Error::lost(error))),
    };
    let arrived = spawn_blocking(move || match Arc::into_inner(content) {
        Some(content) if is_whole => Arrived::complete(content),
        content => {
            let held = content.map_or(Held::Passed, |content| Held::File(content.into()));
            Ok(Box::new(Arrived { held, ..Arrived::default() }))
        }
    });
    Ok(arrived.await??)
}

/// Where the bytes of a pipe go.
enum Sink {
    File(Box<Content>),
    Output(Stdout),
}

impl Sink {
    /// Writes chunks until no more can come.
    fn write_all(mut self, mut chunks: mpsc::Receiver<Bytes>) -> Result<Self, Fault> {
        while let Some(chunk) = chunks.blocking_recv() {
            match &mut self {
                Self::File(content) => content.append(&chunk)?,
                // It would keep the rest of a line, for which a reader may wait.
                Self::Output(output) => {
                    output.write_all(&chunk).and_then(|()| output.flush()).map_err(|error| {
                        let message = format!("cannot write to standard output: {error}");
                        Fault::Ended(Error::new(ErrorKind::Other, message, RESTART))
                    })?;
                }
            }
        }
        Ok(self)
    }
}

/// Passes a whole stream on.
async fn receive_pipe(mut stream: RecvStream, sink: Sink, passed: &AtomicU64) -> Result<Box<Arrived>, Fault> {
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
            Err(ReadError::Reset(_)) => return Ok(Box::default()),
            Err(ReadError::ConnectionLost(error)) => return Err(Fault::Ended(lost(error))),
            Err(error) => return Err(Fault::Ended(Error::lost(error))),
        }
    }
    drop(sender);
    let held = match writing.await?? {
        Sink::File(content) => Held::File(content),
        Sink::Output(_) => Held::Passed,
    };
    Ok(Box::new(Arrived { held, hash: Some(hasher.finalize()), bytes: hasher.count() }))
}
