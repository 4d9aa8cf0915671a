//! Carries out the sender's part of a conversation ([`Sender`]): reads files, and moves messages and streams.
//!
//! Files go in order on separate streams, a few at a time. The next files are on offer before the first has arrived, so
//! many small files fill the path as one large file does; earlier files have priority. Memory: the connection's
//! buffers, whatever the files' sizes, and a bounded part of the receiver's messages.

use std::{
    collections::VecDeque,
    io::{self, Read},
    pin::pin,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rc3_core::units::Rate;
use rc3_net::{
    Connection, SendStream, WriteError,
    file::{SOURCE_FAILED, SendFileError},
    marks::Marks,
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use super::{
    background, before_any_reply,
    gaps::Gaps,
    lost,
    manifest::{Found, SourceEntry},
    message::{self, FromReceiver, FromSender, Kind, MESSAGE_BYTES_MAX},
    moved::Moved,
    openers::Openers,
    outage::silence,
    progress::{Reporter, Steered, Summary},
    sender::{Heard, Sender, Sent, refused},
    session::{Channel, Control, FINAL_PATIENCE},
    source::{FileSource, READ_BYTES_MIN, Throttle},
    ticks,
    verdict::Omission,
};
use crate::error::{Error, ErrorKind, RESTART, Result};
use crate::figures::PathFigures;

/// Most files read at a time, whatever their size.
const FILES_AHEAD: usize = 8;
/// Most small files read at a time.
const SMALL_FILES_AHEAD: usize = 128;
/// Most bytes of files read at a time, if they are more than [`FILES_AHEAD`].
const BYTES_AHEAD: u64 = 4 << 20;
/// A stream of at most so many bytes is read at once: such files fill the path as one large file does.
pub(super) const SMALL_BYTES_MAX: u64 = 256 << 10;
/// `Working` messages that a receiver may send in a burst, and one a second on average.
const SIGNS_AT_ONCE: u64 = 10;
/// Bytes of one read of a pipe.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks between a pipe and the connection.
pub(super) const CHUNKS_AHEAD: usize = 8;

/// Where the bytes of a pipe come from.
pub(super) type Input = Box<dyn Read + Send>;

/// One conversation with a receiver.
pub(super) struct Outbound<'a> {
    channel: Channel<FromSender, FromReceiver>,
    found: &'a Found,
    sender: Sender<'a>,
    dry_run: bool,
    throttle: Arc<Throttle>,
    /// Files that are being sent; each with its index and the bytes of its stream.
    sending: JoinSet<(u32, u64, Result<Sent>)>,
    /// Hashes of files in `sending`, each read to its end.
    hashed: mpsc::UnboundedReceiver<(u32, Sent)>,
    hashes: mpsc::UnboundedSender<(u32, Sent)>,
    openers: Openers,
    /// Bytes of the files in `sending`.
    on_offer: u64,
    /// Files that the receiver compares, one at a time.
    hashing: JoinSet<(u32, Result<blake3::Hash, Omission>)>,
    compared: VecDeque<u32>,
    began: Instant,
    signs_of_life: u64,
    /// Whether the receiver has said anything.
    answered: bool,
    /// Messages sent.
    said: u64,
}

impl<'a> Outbound<'a> {
    pub(super) fn new(
        control: Control,
        patience: Duration,
        found: &'a Found,
        dry_run: bool,
        limit: Option<Rate>,
    ) -> Self {
        let (hashes, hashed) = mpsc::unbounded_channel();
        Self {
            channel: Channel::new(MESSAGE_BYTES_MAX, control, patience),
            found,
            sender: Sender::new(found, dry_run),
            dry_run,
            throttle: Arc::new(Throttle::new(limit)),
            sending: JoinSet::new(),
            hashed,
            hashes,
            openers: Openers::default(),
            on_offer: 0,
            hashing: JoinSet::new(),
            compared: VecDeque::new(),
            began: Instant::now(),
            signs_of_life: 0,
            answered: false,
            said: 0,
        }
    }

    /// The whole exchange. `input` is taken once the receiver wants it.
    pub(super) async fn run(
        mut self,
        input: &mut Option<Input>,
        marks: &Marks,
        reporter: &mut Reporter,
    ) -> Result<()> {
        match self.exchange(input, reporter).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Input => {
                self.channel.say_last(&FromSender::Abort { reason: message::reason(&error) }).await;
                return Err(error);
            }
            // The receiver may have given a reason before it closed. Closed before any message: it has no free slot.
            Err(error) if matches!(error.kind(), ErrorKind::Lost | ErrorKind::Gone) => {
                let word = self.last_word().await;
                let closed = self.channel.connection.close_reason().filter(|_| !self.answered);
                return Err(word.unwrap_or_else(|| closed.map_or(error, before_any_reply)));
            }
            Err(error) => return Err(error),
        }
        if !self.dry_run {
            reporter.done(self.summary(marks, reporter));
        }
        self.sender.unkept().conclude(self.found.left_out.len(), reporter)
    }

    /// Returns when the receiver has settled every file, or has accepted a dry run.
    async fn exchange(&mut self, input: &mut Option<Input>, reporter: &mut Reporter) -> Result<()> {
        let (connection, outbox) = (self.channel.connection.clone(), self.channel.outbox.clone());
        let (mut tick, mut moved) = (ticks(), Moved::new(self.patience()));
        let (mut message, mut next) = (None, None);
        loop {
            message = message.or_else(|| self.sender.next_message());
            if next.is_none() && self.has_room() {
                next = self.sender.next_file();
                if next.is_none()
                    && let Some(entry) = self.sender.next_changed()
                {
                    self.look_again(entry);
                    continue;
                }
            }
            if let Some((entry, gaps)) = next.take_if(|(entry, gaps)| !self.has_stream(*entry, gaps)) {
                self.begin(entry, gaps, None, input);
                continue;
            }
            if self.hashing.is_empty()
                && let Some(entry) = self.compared.pop_front()
            {
                self.hash(entry);
            }
            tokio::select! {
                room = outbox.reserve(), if message.is_some() => {
                    let room = room.map_err(|_| self.channel.broken())?;
                    if let Some(message) = message.take() {
                        room.send(message::encode(&message));
                        self.said += 1;
                    }
                }
                reply = self.channel.hear() => {
                    moved.on_message();
                    if self.on_reply(reply?, reporter)? {
                        return Ok(());
                    }
                }
                stream = connection.open_uni(), if next.is_some() => {
                    if let Some((entry, gaps)) = next.take() {
                        self.begin(entry, gaps, Some(stream.map_err(lost)?), input);
                    }
                }
                Some(sent) = self.sending.join_next() => {
                    let (entry, bytes, sent) = sent.map_err(background)?;
                    self.on_offer -= bytes;
                    self.sender.on_sent(entry, sent?);
                }
                Some((entry, whole)) = self.hashed.recv() => self.sender.on_sent(entry, whole),
                Some(hashed) = self.hashing.join_next() => {
                    let (entry, hash) = hashed.map_err(background)?;
                    self.sender.on_hashed(entry, hash);
                }
                _ = tick.tick() => self.look(&mut moved, reporter)?,
            }
        }
    }

    /// Reports progress.
    ///
    /// # Errors
    /// When there is none for too long.
    fn look(&self, moved: &mut Moved, reporter: &mut Reporter) -> Result<()> {
        let delivered = delivered(&self.channel.connection);
        // However long a disk or a pipe takes, here or at the receiver.
        if !self.hashing.is_empty() || (self.found.is_pipe() && reporter.has_started()) {
            moved.on_message();
        }
        let silence = silence(&self.channel.connection);
        if silence.is_some() {
            moved.on_message();
        }
        moved.check(delivered + self.said)?;
        reporter.silent(silence);
        if reporter.has_started() {
            let stats = self.channel.connection.try_stats();
            reporter.steered = stats.and_then(|stats| stats.kickass).map(Steered::from);
            reporter.progress(delivered);
        }
        Ok(())
    }

    /// Handles a message; returns whether it was the last one.
    fn on_reply(&mut self, reply: FromReceiver, reporter: &mut Reporter) -> Result<bool> {
        self.answered = true;
        match self.sender.on_reply(reply)? {
            Heard::Noted => {}
            Heard::Working(work) => {
                self.signs_of_life += 1;
                if self.signs_of_life > SIGNS_AT_ONCE + self.began.elapsed().as_secs() {
                    return Err(Error::protocol("too many `Working` messages"));
                }
                reporter.waiting(work);
            }
            Heard::Compare(entry) => self.compared.push_back(entry),
            Heard::Accepted if self.dry_run => {
                for (entry, action) in self.sender.actions() {
                    reporter.would(entry, action);
                }
                reporter.would_send(self.sender.files_to_send(), self.sender.bytes_to_send());
                return Ok(true);
            }
            Heard::Accepted => {
                let bytes = (!self.found.is_pipe()).then(|| self.found.bytes());
                let (there, needed) = (self.sender.there(), self.sender.bytes_to_send());
                reporter.start(self.found.file_count(), bytes, there, needed, &self.channel.connection);
            }
            Heard::InPlace(entry, bytes) => {
                if let Some(file) = self.sender.entry(entry) {
                    reporter.file(&file.name, bytes);
                }
            }
            Heard::Finished => return Ok(true),
        }
        Ok(false)
    }

    fn has_room(&self) -> bool {
        self.sender.backlog() < SMALL_FILES_AHEAD
            && (self.sending.len() < FILES_AHEAD
                || (self.sending.len() < SMALL_FILES_AHEAD && self.on_offer < BYTES_AHEAD))
    }

    fn has_stream(&self, entry: u32, gaps: &Gaps) -> bool {
        !gaps.is_empty() || self.sender.entry(entry).is_some_and(|file| file.kind == Kind::Pipe)
    }

    /// Offers the present version of a file that changed.
    fn look_again(&mut self, entry: u32) {
        if let Some(file) = self.sender.entry(entry) {
            let file = Found::look_again(file);
            self.sender.on_again(entry, file);
        }
    }

    fn begin(&mut self, entry: u32, gaps: Gaps, stream: Option<SendStream>, input: &mut Option<Input>) {
        let Some(file) = self.sender.entry(entry).cloned() else { return };
        let (bytes, throttle) = (gaps.len(), Arc::clone(&self.throttle));
        self.on_offer += bytes;
        if let Some(stream) = &stream {
            let priority = self.openers.priority(entry, bytes, !self.sender.has_more_files());
            // The stream is open, so it has a priority.
            let _ = stream.set_priority(priority);
        }
        let input = input.take_if(|_| file.kind == Kind::Pipe);
        let hashes = self.hashes.clone();
        // The other end is in `self`, which may be gone by then.
        let on_hashed = move |whole| drop(hashes.send((entry, whole)));
        self.sending.spawn(async move {
            let sent = match (stream, input) {
                (Some(stream), Some(input)) => send_pipe(stream, input, throttle).await,
                (stream, _) => send_file(stream, file, gaps, throttle, on_hashed).await,
            };
            (entry, bytes, sent)
        });
    }

    /// Begins to hash a file that the receiver compares.
    fn hash(&mut self, entry: u32) {
        let file = self.found.entries[entry as usize].clone();
        self.hashing.spawn_blocking(move || (entry, FileSource::hash(&file).map_err(Omission::from)));
    }

    /// The receiver's last message, if it explains the close.
    async fn last_word(&mut self) -> Option<Error> {
        let word = async {
            loop {
                match self.channel.hear().await {
                    Ok(FromReceiver::Refused { refusal, reason }) => return Some(refused(refusal, &reason)),
                    Ok(_) => {}
                    Err(_) => return None,
                }
            }
        };
        timeout(FINAL_PATIENCE, word).await.ok().flatten()
    }

    /// A low rate limit causes pauses by itself.
    fn patience(&self) -> Duration {
        let pause = self.throttle.limit().map(|rate| 3 * rate.time_for(READ_BYTES_MIN as u64));
        self.channel.patience.max(pause.unwrap_or_default())
    }

    /// The figures of a complete transfer.
    fn summary(&self, marks: &Marks, reporter: &Reporter) -> Summary {
        let stats = self.channel.connection.stats();
        let steered = stats.kickass.map(|kickass| kickass.steered_until(Instant::now()).as_secs_f64());
        Summary {
            primary_bytes: stats.sent.primary_bytes,
            rlp_bytes: stats.sent.levels.iter().skip(1).map(|level| level.delivered_bytes).collect(),
            duplicate_bytes: stats.sent.duplicate_bytes,
            steered_seconds: steered,
            path: Some(PathFigures::of(&stats, marks)),
            ..reporter.summary(self.sender.there().0)
        }
    }
}

/// Bytes that are sent or nearly so: given to the primary, or SACKed. No byte counts twice.
fn delivered(connection: &Connection) -> u64 {
    let Some(stats) = connection.try_stats() else { return 0 };
    let rlp: u64 = stats.sent.levels.iter().map(|level| level.delivered_bytes).sum();
    stats.sent.primary_bytes + rlp
}

/// Why the connection failed, as an error of this program.
fn broken(error: WriteError) -> Error {
    match error {
        WriteError::ConnectionLost(error) => lost(error),
        error => Error::lost(error),
    }
}

/// A file to send.
enum Opened {
    Read(Bytes, blake3::Hash),
    Long(Arc<FileSource>),
}

/// Sends the missing ranges of one file on one stream.
async fn send_file(
    stream: Option<SendStream>,
    file: SourceEntry,
    gaps: Gaps,
    throttle: Arc<Throttle>,
    on_hashed: impl FnOnce(Sent),
) -> Result<Sent> {
    let (file_bytes, len) = (file.bytes(), gaps.len());
    let opened = blocking(move || {
        let source = FileSource::open(&file, gaps, throttle)?;
        if len > SMALL_BYTES_MAX {
            return Ok(Opened::Long(source.into()));
        }
        let bytes = source.read(len)?;
        Ok(Opened::Read(bytes, source.finish()?))
    });
    match (opened.await?, stream) {
        (Ok(Opened::Long(source)), Some(stream)) => {
            send_long(stream, source, len, file_bytes, on_hashed).await
        }
        // The connection keeps what is written until it has arrived, and offers it to both loops.
        (Ok(Opened::Read(bytes, hash)), Some(mut stream)) => match stream.write_chunk(bytes).await {
            Ok(()) => stream.finish().map_err(Error::lost).map(|()| Sent::Whole(hash, file_bytes)),
            Err(WriteError::Stopped(_)) => Ok(Sent::Stopped),
            Err(error) => Err(broken(error)),
        },
        (Ok(Opened::Read(_, hash)), None) => Ok(Sent::Whole(hash, file_bytes)),
        (Ok(Opened::Long(_)), None) => Err(Error::lost("a file without a stream")),
        (Err(error), stream) => {
            // A stream that is dropped would end as if it were complete.
            stream.map(|mut stream| stream.reset(SOURCE_FAILED));
            Ok(Sent::Failed(error))
        }
    }
}

/// Reads a file while it is sent. Its hash need not wait until all has arrived, which would cost a round trip.
async fn send_long(
    mut stream: SendStream,
    source: Arc<FileSource>,
    len: u64,
    file_bytes: u64,
    on_hashed: impl FnOnce(Sent),
) -> Result<Sent> {
    let hash = source.hash_once_read();
    let mut sending = pin!(stream.send_file(Arc::clone(&source), len));
    let sent = tokio::select! {
        sent = &mut sending => sent,
        Ok(hash) = hash => {
            on_hashed(Sent::Whole(hash, file_bytes));
            sending.await
        }
    };
    match sent {
        Ok(()) => {}
        Err(SendFileError::SinkFailed | SendFileError::Stopped(_)) => return Ok(Sent::Stopped),
        Err(SendFileError::Read { error, .. }) => return Ok(Sent::Failed(error.into())),
        Err(SendFileError::Shrunk(_)) => return Ok(Sent::Failed(Omission::Changed)),
        Err(SendFileError::ConnectionLost(error)) => return Err(lost(error)),
        Err(error) => return Err(Error::lost(error)),
    }
    let hash = blocking(move || match Arc::into_inner(source) {
        Some(source) => source.finish(),
        None => Err(io::Error::other("the file is still in use").into()),
    });
    Ok(hash.await?.map_or_else(Sent::Failed, |hash| Sent::Whole(hash, file_bytes)))
}

/// Sends a pipe to its end.
async fn send_pipe(mut stream: SendStream, input: Input, throttle: Arc<Throttle>) -> Result<Sent> {
    let (sender, mut chunks) = mpsc::channel(CHUNKS_AHEAD);
    // A blocked read must not delay the end of the program.
    thread::spawn(move || read_pipe(input, &throttle, &sender));
    let mut hasher = blake3::Hasher::new();
    while let Some(chunk) = chunks.recv().await {
        let chunk = chunk.map_err(unreadable)?;
        hasher.update(&chunk);
        match stream.write_chunk(chunk).await {
            Ok(()) => {}
            // The receiver says why.
            Err(WriteError::Stopped(_)) => return Ok(Sent::Stopped),
            Err(error) => return Err(broken(error)),
        }
    }
    stream.finish().map_err(Error::lost)?;
    Ok(Sent::Whole(hasher.finalize(), hasher.count()))
}

fn unreadable(error: io::Error) -> Error {
    Error::new(ErrorKind::Input, format!("cannot read standard input: {error}"), RESTART)
}

/// Passes chunks on until the pipe ends, or an error.
fn read_pipe(mut input: Input, throttle: &Throttle, chunks: &mpsc::Sender<io::Result<Bytes>>) {
    let mut buf = vec![0; CHUNK_BYTES];
    loop {
        let chunk = match input.read(&mut buf) {
            Ok(0) => return,
            Ok(read) => Ok(Bytes::copy_from_slice(&buf[..read])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        thread::sleep(throttle.pause(chunk.as_ref().map_or(0, Bytes::len)));
        let over = chunk.is_err();
        if chunks.blocking_send(chunk).is_err() || over {
            return;
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(background)
}
