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

/// Bytes of one read of a pipe.
const CHUNK_BYTES: usize = 64 << 10;

/// A file's content, without its final name.
#[derive(Default)]
pub(super) struct Arrived {
    /// `None` on standard output.
    content: Option<Content>,
    /// If it is complete; else the sender broke the stream off, and says why.
    hash: Option<blake3::Hash>,
    bytes: u64,
}

impl Arrived {
    /// All of a file without missing bytes.
    pub(super) fn complete(mut content: Content) -> io::Result<Box<Self>> {
        let (hash, bytes) = (Some(content.complete()?), content.bytes());
        Ok(Box::new(Self { content: Some(content), hash, bytes }))
    }

    /// Whether the sender broke the stream off.
    pub(super) fn is_broken(&self) -> bool {
        self.hash.is_none()
    }

    /// Gives the file its name if its hash matches; returns its length.
    pub(super) fn place(self, hash: [u8; 32]) -> Result<u64, Fault> {
        match (self.hash.filter(|complete| *complete == hash), self.content) {
            (Some(hash), Some(content)) => content.place(hash)?,
            (Some(_), None) => {}
            (None, content) => {
                content.into_iter().for_each(Content::discard);
                return Err(Fault::Settled(Verdict::Damaged));
            }
        }
        Ok(self.bytes)
    }

    /// Removes what no run can use.
    pub(super) fn discard(self) {
        self.content.into_iter().for_each(Content::discard);
    }
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
async fn receive_content(mut stream: RecvStream, content: Content) -> Result<Box<Arrived>, Fault> {
    let missing = content.missing().len();
    let content = Arc::new(content);
    let is_whole = match stream.recv_file(Arc::clone(&content), missing).await {
        Ok(bytes) if bytes == missing => true,
        Ok(_) | Err(RecvFileError::TooLong) => {
            return Err(Fault::Ended(Error::protocol("a file that is not as long as announced")));
        }
        Err(RecvFileError::Write { error, .. }) => return Err(error.into()),
        Err(RecvFileError::SourceFailed | RecvFileError::Reset(_)) => false,
        Err(RecvFileError::ConnectionLost(error)) => return Err(Fault::Ended(lost(error))),
        Err(error) => return Err(Fault::Ended(Error::lost(error))),
    };
    let arrived = spawn_blocking(move || match Arc::into_inner(content) {
        Some(content) if is_whole => Arrived::complete(content),
        content => Ok(Box::new(Arrived { content, ..Arrived::default() })),
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
    let content = match writing.await?? {
        Sink::File(content) => Some(*content),
        Sink::Output(_) => None,
    };
    Ok(Box::new(Arrived { content, hash: Some(hasher.finalize()), bytes: hasher.count() }))
}
