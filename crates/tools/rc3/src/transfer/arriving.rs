//! One arriving file: its stream, its content, and why it may not be kept.

use std::{
    io,
    sync::{Arc, atomic::AtomicU64},
};

use rc3_net::{RecvStream, file::RecvFileError};
use tokio::task::JoinError;

use super::{content::Content, destination::Destination, expected::Expected, part::PlaceError};

/// A file's content, without its final name.
pub(super) struct Arrived {
    pub(super) content: Content,
    /// If it is complete.
    hash: Option<blake3::Hash>,
}

impl Arrived {
    /// Gives the file its name if its hash matches.
    pub(super) fn place(self, hash: [u8; 32]) -> Result<(), FileError> {
        match self.hash.filter(|complete| *complete == hash) {
            Some(hash) => Ok(self.content.place(hash)?),
            None => {
                self.content.discard();
                Err(FileError::NotVerified)
            }
        }
    }
}

/// Why a file was not kept.
pub(super) enum FileError {
    Storage(io::Error),
    NotVerified,
    /// Its place is that of another file of the transfer.
    Shared,
    /// The sender said [`FromSender::Omit`].
    Omitted,
    /// The sender broke the stream off, and says why.
    Broken(Option<Box<Arrived>>),
    Lost(RecvFileError),
    Length,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<PlaceError> for FileError {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Taken => Self::Storage(io::ErrorKind::AlreadyExists.into()),
            PlaceError::Shared => Self::Shared,
            PlaceError::Io(error) => Self::Storage(error),
        }
    }
}

impl From<JoinError> for FileError {
    fn from(error: JoinError) -> Self {
        Self::Storage(error.into())
    }
}

pub(super) async fn create(
    destination: Destination,
    file: Expected,
    arrived: Arc<AtomicU64>,
) -> Result<Content, FileError> {
    let created = tokio::task::spawn_blocking(move || Content::create(&destination, &file, arrived));
    Ok(created.await??)
}

/// Writes a stream's bytes at their offsets, in order of arrival.
pub(super) async fn receive_content(
    mut stream: RecvStream,
    content: Content,
) -> Result<Box<Arrived>, FileError> {
    let missing = content.gaps().len();
    let content = Arc::new(content);
    let received = stream.recv_file(Arc::clone(&content), missing).await;
    match received {
        Ok(bytes) if bytes == missing => {}
        Ok(_) | Err(RecvFileError::TooLong) => return Err(FileError::Length),
        Err(RecvFileError::Write { error, .. }) => return Err(FileError::Storage(error)),
        Err(RecvFileError::SourceFailed | RecvFileError::Reset(_)) => {
            let arrived = Arc::into_inner(content).map(|content| Box::new(Arrived { content, hash: None }));
            return Err(FileError::Broken(arrived));
        }
        Err(error) => return Err(FileError::Lost(error)),
    }
    let completed = tokio::task::spawn_blocking(move || match Arc::into_inner(content) {
        Some(content) => completed(content),
        None => Err(io::Error::other("the file is still in use")),
    });
    Ok(completed.await??)
}

pub(super) fn completed(mut content: Content) -> io::Result<Box<Arrived>> {
    let hash = Some(content.complete()?);
    Ok(Box::new(Arrived { content, hash }))
}
