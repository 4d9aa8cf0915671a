//! The files on their way out: a few at a time, in the order of the manifest, and after them those that changed.

use std::{collections::VecDeque, io, sync::Arc};

use rc3_core::units::Rate;
use rc3_net::{
    Connection, SendStream,
    file::{SOURCE_FAILED, SendFileError},
};
use tokio::task::JoinSet;

use super::{
    agreed::Agreed,
    background,
    error::TransferError,
    gaps::Gaps,
    lost,
    manifest::{Found, LeaveOut, SourceEntry},
    message::{self, FromSender, Omission},
    outbound::broken,
    source::{FileSource, SourceError, Throttle},
    unanswered::Unanswered,
};

/// Most files read at a time, whatever their size.
const FILES_AHEAD: usize = 8;
/// Most small files read at a time: enough that they fill the path as one large file does.
const SMALL_FILES_AHEAD: usize = 128;
/// Most bytes of files read at a time, if they are more than [`FILES_AHEAD`].
const BYTES_AHEAD: u64 = 4 << 20;

/// What to send.
pub(super) struct Feed<'a> {
    found: &'a Found,
    unanswered: &'a Unanswered,
    throttle: Arc<Throttle>,
    sending: JoinSet<(Piece, Result<Sent, TransferError>)>,
    /// Bytes of the files in `sending`.
    on_offer: u64,
    /// Files that changed.
    changed: VecDeque<u32>,
    /// Bytes in the holes of all files, of those sent again in their second version.
    holes_bytes: u64,
}

/// One version of a file.
#[derive(Debug, Clone, Copy)]
struct Piece {
    file: u32,
    /// Its length.
    len: u64,
    /// Bytes of its stream.
    bytes: u64,
    again: bool,
}

/// How the sending of a file ended.
enum Sent {
    Whole(blake3::Hash),
    /// The receiver stopped reading, and says why.
    Stopped,
    Changed,
    Unreadable(io::Error),
}

impl From<SourceError> for Sent {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Changed => Self::Changed,
            SourceError::Io(error) => Self::Unreadable(error),
        }
    }
}

impl<'a> Feed<'a> {
    pub(super) fn new(found: &'a Found, unanswered: &'a Unanswered, limit: Option<Rate>) -> Self {
        Self {
            found,
            unanswered,
            throttle: Arc::new(Throttle::new(limit)),
            sending: JoinSet::new(),
            on_offer: 0,
            changed: VecDeque::new(),
            holes_bytes: found.holes_bytes,
        }
    }

    /// Sends everything missing.
    pub(super) async fn send(
        mut self,
        connection: &Connection,
        control: &mut SendStream,
        agreed: Agreed,
    ) -> Result<(), TransferError> {
        let found = self.found;
        let mut files = found.files().filter_map(|(at, file)| Some((at, file, agreed.to_send(at, file)?)));
        loop {
            while self.has_room() {
                // In order, so that the receiver can match their streams.
                if let Some((at, file, gaps)) = files.next() {
                    self.begin(connection, at, file.clone(), gaps, false).await?;
                } else if let Some(at) = self.changed.pop_front() {
                    self.begin_again(connection, control, at).await?;
                } else {
                    break;
                }
            }
            let Some(sent) = self.sending.join_next().await else { return Ok(()) };
            let (piece, sent) = sent.map_err(background)?;
            self.on_offer -= piece.bytes;
            self.on_sent(control, piece, sent?).await?;
        }
    }

    fn has_room(&self) -> bool {
        self.sending.len() < FILES_AHEAD
            || (self.sending.len() < SMALL_FILES_AHEAD && self.on_offer < BYTES_AHEAD)
    }

    async fn begin(
        &mut self,
        connection: &Connection,
        at: u32,
        file: SourceEntry,
        gaps: Gaps,
        again: bool,
    ) -> Result<(), TransferError> {
        let stream = if gaps.is_empty() { None } else { Some(open(connection, at).await?) };
        let piece = Piece { file: at, len: file.bytes(), bytes: gaps.len(), again };
        let throttle = Arc::clone(&self.throttle);
        self.on_offer += piece.bytes;
        self.sending.spawn(async move { (piece, send_file(stream, file, gaps, throttle).await) });
        Ok(())
    }

    /// Sends the present version of a file.
    async fn begin_again(
        &mut self,
        connection: &Connection,
        control: &mut SendStream,
        at: u32,
    ) -> Result<(), TransferError> {
        let Some(file) = self.found.file(at).filter(|_| self.unanswered.is_open(at)) else { return Ok(()) };
        match Found::look_again(file, &mut self.holes_bytes) {
            Ok(file) => {
                let gaps = Gaps::whole(file.bytes()).without(&file.holes());
                say(control, &FromSender::Again { file: at, kind: file.kind.clone() }).await?;
                self.begin(connection, at, file, gaps, true).await
            }
            Err(LeaveOut::Unreadable(reason)) => self.omit(control, at, Omission::Unreadable(reason)).await,
            Err(_) => self.omit(control, at, Omission::Changed).await,
        }
    }

    async fn on_sent(
        &mut self,
        control: &mut SendStream,
        Piece { file, len, again, .. }: Piece,
        sent: Sent,
    ) -> Result<(), TransferError> {
        match sent {
            Sent::Whole(hash) => {
                self.unanswered.sent(file, len);
                say(control, &FromSender::FileSent { file, hash: *hash.as_bytes() }).await
            }
            Sent::Stopped => Ok(()),
            Sent::Changed if again => self.omit(control, file, Omission::Changed).await,
            Sent::Changed => {
                self.changed.push_back(file);
                Ok(())
            }
            Sent::Unreadable(error) => {
                self.omit(control, file, Omission::Unreadable(message::reason(error))).await
            }
        }
    }

    async fn omit(
        &self,
        control: &mut SendStream,
        file: u32,
        omission: Omission,
    ) -> Result<(), TransferError> {
        self.unanswered.omitted(file, omission.clone());
        say(control, &FromSender::Omit { file, omission }).await
    }
}

async fn say(control: &mut SendStream, message: &FromSender) -> Result<(), TransferError> {
    control.write_chunk(message::encode(message).into()).await.map_err(broken)
}

/// A stream for a file; earlier files have priority, and the control stream before all.
async fn open(connection: &Connection, at: u32) -> Result<SendStream, TransferError> {
    let stream = connection.open_uni().await.map_err(lost)?;
    // The stream is open, so it has a priority.
    let _ = stream.set_priority(i32::try_from(at).map_or(i32::MIN, |at| -1 - at));
    Ok(stream)
}

/// Sends the missing ranges of one file on one stream.
async fn send_file(
    stream: Option<SendStream>,
    file: SourceEntry,
    gaps: Gaps,
    throttle: Arc<Throttle>,
) -> Result<Sent, TransferError> {
    let len = gaps.len();
    let source = match blocking(move || FileSource::open(&file, gaps, throttle)).await? {
        Ok(source) => Arc::new(source),
        Err(error) => {
            // A stream that is dropped would end as if it were complete.
            stream.map(|mut stream| stream.reset(SOURCE_FAILED));
            return Ok(error.into());
        }
    };
    if let Some(mut stream) = stream {
        match stream.send_file(Arc::clone(&source), len).await {
            Ok(()) => {}
            Err(SendFileError::SinkFailed | SendFileError::Stopped(_)) => return Ok(Sent::Stopped),
            Err(SendFileError::Read { error, .. }) => return Ok(SourceError::from(error).into()),
            Err(SendFileError::Shrunk(_)) => return Ok(Sent::Changed),
            Err(SendFileError::ConnectionLost(error)) => return Err(lost(error)),
            Err(error) => return Err(TransferError::Lost(error.to_string())),
        }
    }
    let hash = blocking(move || match Arc::into_inner(source) {
        Some(source) => source.finish(),
        None => Err(io::Error::other("the file is still in use").into()),
    });
    Ok(hash.await?.map_or_else(Sent::from, Sent::Whole))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, TransferError> {
    tokio::task::spawn_blocking(work).await.map_err(background)
}
