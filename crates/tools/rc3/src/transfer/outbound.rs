//! One transfer at the sender, from the connection to the receiver's last message.
//!
//! Files go in order on separate streams, a few at a time. The next files are on offer before the first has arrived, so
//! many small files fill the path as one large file does; earlier files have priority. Memory: the connection's
//! buffers, whatever the files' sizes, and a bounded part of the receiver's messages.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rc3_core::units::Rate;
use rc3_net::{ClientConfig, Connection, Endpoint, SendStream, WriteError, file::SendFileError};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, timeout},
};

use super::{
    background, before_any_reply,
    error::TransferError,
    gaps::{GAPS_MAX, Gaps},
    heard,
    identity::{self, SERVER_NAME},
    lost,
    manifest::{self, Found},
    message::{self, ALPN, Fault, FromReceiver, FromSender, Refusal, VERSION},
    moved::Moved,
    not_connected,
    paths::printable,
    progress::{Reporter, Steered, Summary},
    send::SendJob,
    source::{FileSource, READ_BYTES_MIN, Throttle, read_error},
    ticket::Ticket,
    transport,
};
use crate::{figures::PathFigures, mtu};

/// Most files read at a time.
const FILES_AHEAD: usize = 8;
/// Messages written at a time while the manifest is sent.
const MANIFEST_BATCH_BYTES: usize = 1 << 16;
/// Most gaps of all files together: a receiver resumes some hundred files at most.
const ALL_GAPS_MAX: usize = 512 * GAPS_MAX;
/// `Working` messages that a receiver may send in a burst, and one a second on average.
const SIGNS_AT_ONCE: u64 = 10;
/// Time limit for a last message.
const FINAL_PATIENCE: Duration = Duration::from_secs(2);

/// The whole exchange with one receiver.
pub(super) async fn converse(
    endpoint: &Endpoint,
    address: SocketAddr,
    job: &SendJob,
    found: &Found,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let connection = connect(endpoint, address, job).await?;
    converse_over(&connection, endpoint, job, found, reporter).await
}

/// The whole exchange over a connection to the receiver, of which either side may have opened it.
pub(super) async fn converse_over(
    connection: &Connection,
    endpoint: &Endpoint,
    job: &SendJob,
    found: &Found,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let opened = timeout(job.patience, connection.open_bi()).await;
    let (mut control, replies) =
        opened.map_err(|_| TransferError::Stalled(job.patience))?.map_err(before_any_reply)?;
    let mut replies = Replies::new(connection, message::listen(replies), job.patience);

    // The answer may arrive before the manifest is complete: the receiver then ignores the rest.
    let mut manifest = Box::pin(say_manifest(&mut control, &job.ticket, found));
    let mut all_said = false;
    let first = loop {
        tokio::select! {
            said = &mut manifest, if !all_said => {
                all_said = true;
                if let Err(error) = said {
                    // A refusing receiver may stop reading first.
                    break replies.soon().await.map_err(|_| error);
                }
            }
            reply = replies.soon() => match reply {
                Ok(FromReceiver::Working(work)) => reporter.waiting(work),
                reply => break reply,
            },
        }
    };
    drop(manifest);
    // Closed before any message: the receiver has no free slot.
    let first = first.map_err(|error| connection.close_reason().map_or(error, before_any_reply))?;
    let agreed = match agree(&mut replies, first, &mut control, found, reporter).await {
        Err(error @ (TransferError::Read { .. } | TransferError::Shrunk(_))) => {
            abort(&mut control, &error).await;
            return Err(error);
        }
        agreed => agreed?,
    };

    let total = found.bytes();
    let there = agreed.bytes_there(found);
    let unchanged_files = agreed.unchanged.len();
    let mut left = found.file_count() - unchanged_files;
    let peer = connection.remote_address().to_string();
    reporter.start(found.file_count(), total, &peer, connection.is_rc3());
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let unanswered = Unanswered::default();
    let files = Files { found, unanswered: &unanswered, limit: job.rate_limit };
    let mut sending = Box::pin(files.send(connection, &mut control, agreed));
    let (mut all_sent, mut moved) = (false, Moved::new(patience(job)));
    loop {
        tokio::select! {
            sent = &mut sending, if !all_sent => {
                all_sent = true;
                if let Err(error) = sent {
                    // The receiver may have given a reason before it closed.
                    return Err(replies.send_final(found).await.unwrap_or(error));
                }
            }
            reply = replies.next() => {
                moved.on_message();
                match reply? {
                    FromReceiver::FileDone { file: at } if unanswered.remove(at) => {
                        left -= 1;
                        if let Some(file) = found.file(at) {
                            reporter.file(&file.name, file.bytes());
                        }
                    }
                    FromReceiver::Finished if left == 0 => break,
                    FromReceiver::Working(work) => reporter.waiting(work),
                    other => return Err(unwelcome(other, found)),
                }
            }
            _ = tick.tick() => {
                let delivered = delivered(connection);
                moved.check(delivered)?;
                reporter.steered = connection.try_stats().and_then(|stats| stats.kickass).map(Steered::from);
                reporter.progress((there + delivered).min(total));
            }
        }
    }
    let seconds = reporter.elapsed();
    let stats = connection.stats();
    let steered = stats.kickass.map(|kickass| kickass.steered_until(Instant::now()).as_secs_f64());
    let path = PathFigures::of(&stats, endpoint.marks());
    let stats = stats.sent;
    reporter.done(Summary {
        files: found.file_count(),
        unchanged_files,
        bytes: total,
        seconds,
        bytes_per_second: total as f64 / seconds.max(1e-9),
        primary_bytes: stats.primary_bytes,
        rlp_bytes: stats.levels.iter().skip(1).map(|level| level.delivered_bytes).collect(),
        duplicate_bytes: stats.duplicate_bytes,
        steered_seconds: steered,
        path: Some(path),
    });
    Ok(())
}

pub(super) async fn connect(
    endpoint: &Endpoint,
    address: SocketAddr,
    job: &SendJob,
) -> Result<Connection, TransferError> {
    let mut config = ClientConfig::new(Arc::new(identity::client(job.ticket.fingerprint(), ALPN)?));
    // A receiver opens no streams.
    let mut transport = transport(job.rlp, job.congestion, job.qlog.as_deref(), 0)?;
    if let Some(mtu) = job.mtu {
        transport.mtu_discovery_config(Some(mtu::discovery(mtu, address)));
    }
    config.transport_config(Arc::new(transport));
    let connecting = endpoint
        .connect_with(config, address, SERVER_NAME)
        .map_err(|error| TransferError::Connect { address, reason: error.to_string() })?;
    connecting.await.map_err(|error| not_connected(address, error))
}

/// The receiver's messages, in order and rate-limited.
pub(super) struct Replies<'a> {
    connection: &'a Connection,
    messages: message::Messages<FromReceiver>,
    patience: Duration,
    began: Instant,
    signs_of_life: u64,
}

impl<'a> Replies<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        messages: message::Messages<FromReceiver>,
        patience: Duration,
    ) -> Self {
        Self { connection, messages, patience, began: Instant::now(), signs_of_life: 0 }
    }

    /// Cancel-safe: dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<FromReceiver, TransferError> {
        let reply = heard(self.connection, self.messages.recv().await)?;
        if matches!(reply, FromReceiver::Working(_)) {
            self.signs_of_life += 1;
            if self.signs_of_life > SIGNS_AT_ONCE + self.began.elapsed().as_secs() {
                return Err(TransferError::Protocol("too many `Working` messages".to_owned()));
            }
        }
        Ok(reply)
    }

    /// The next message, for which the other side has no reason to delay.
    pub(super) async fn soon(&mut self) -> Result<FromReceiver, TransferError> {
        let patience = self.patience;
        timeout(patience, self.next()).await.unwrap_or(Err(TransferError::Stalled(patience)))
    }

    /// The receiver's last message, if it explains the close.
    pub(super) async fn send_final(&mut self, found: &Found) -> Option<TransferError> {
        let word = async {
            while let Ok(reply) = self.next().await {
                if matches!(reply, FromReceiver::FileFailed { .. } | FromReceiver::Refused { .. }) {
                    return Some(unwelcome(reply, found));
                }
            }
            None
        };
        timeout(FINAL_PATIENCE, word).await.ok().flatten()
    }
}

/// `Hello` and the manifest.
async fn say_manifest(control: &mut SendStream, ticket: &Ticket, found: &Found) -> Result<(), TransferError> {
    let mut batch = message::encode(&FromSender::Hello { version: VERSION, secret: ticket.secret().0 });
    for entry in &found.entries {
        batch.extend(message::encode(&FromSender::Entry(entry.entry())));
        if batch.len() >= MANIFEST_BATCH_BYTES {
            control.write_chunk(std::mem::take(&mut batch).into()).await.map_err(broken)?;
        }
    }
    batch.extend(message::encode(&FromSender::ManifestEnd));
    control.write_chunk(batch.into()).await.map_err(broken)
}

/// What need not be sent.
#[derive(Default)]
struct Agreed {
    /// Missing ranges of files that the receiver has parts of.
    gaps: HashMap<u32, Gaps>,
    /// Files that the receiver has, by their hashes.
    unchanged: HashSet<u32>,
}

impl Agreed {
    fn bytes_there(&self, found: &Found) -> u64 {
        let bytes = |at: u32| found.file(at).map_or(0, manifest::SourceEntry::bytes);
        let parts: u64 = self.gaps.iter().map(|(&at, gaps)| bytes(at) - gaps.len()).sum();
        parts + self.unchanged.iter().map(|&at| bytes(at)).sum::<u64>()
    }
}

/// Answers the receiver's questions about its existing files, until it accepts.
async fn agree(
    replies: &mut Replies<'_>,
    mut reply: FromReceiver,
    control: &mut SendStream,
    found: &Found,
    reporter: &mut Reporter,
) -> Result<Agreed, TransferError> {
    let protocol = |what: &str| TransferError::Protocol(what.to_owned());
    let (mut agreed, mut compared, mut all_gaps) = (Agreed::default(), HashSet::new(), 0);
    loop {
        match reply {
            FromReceiver::Accepted => return Ok(agreed),
            FromReceiver::Working(work) => reporter.waiting(work),
            FromReceiver::Compare { file: at } => {
                let Some(file) = found.file(at).filter(|_| compared.insert(at)) else {
                    return Err(protocol("a comparison of an unknown file, or a second one"));
                };
                let (path, bytes) = (file.path.clone(), file.bytes());
                let hash = blocking(move || FileSource::hash(&path, bytes)).await?;
                let hash = hash.map_err(|error| read_error(&file.path, error))?;
                let answer = message::encode(&FromSender::Hash { file: at, hash: *hash.as_bytes() });
                let written = timeout(replies.patience, control.write_chunk(answer.into())).await;
                written.map_err(|_| TransferError::Stalled(replies.patience))?.map_err(broken)?;
            }
            FromReceiver::Have { file: at } => {
                let contradicts = !compared.contains(&at) || agreed.gaps.contains_key(&at);
                if contradicts || !agreed.unchanged.insert(at) {
                    return Err(protocol("`Have` without a comparison"));
                }
            }
            FromReceiver::Missing { file: at, gaps } => {
                all_gaps += gaps.len();
                let contradicts = all_gaps > ALL_GAPS_MAX || agreed.unchanged.contains(&at);
                let gaps = found.file(at).and_then(|file| Gaps::parse(&gaps, file.bytes()));
                if contradicts || gaps.is_none_or(|gaps| agreed.gaps.insert(at, gaps).is_some()) {
                    return Err(protocol("impossible gaps"));
                }
            }
            other => return Err(unwelcome(other, found)),
        }
        reply = replies.soon().await?;
    }
}

/// Files that are sent completely but not confirmed by the receiver.
#[derive(Default)]
struct Unanswered(Mutex<HashSet<u32>>);

impl Unanswered {
    fn insert(&self, file: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
    }

    /// Whether the file existed.
    fn remove(&self, file: u32) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&file)
    }
}

/// A low rate limit causes pauses by itself.
fn patience(job: &SendJob) -> Duration {
    let pause = job.rate_limit.map_or(Duration::ZERO, |rate| 3 * rate.time_for(READ_BYTES_MIN as u64));
    job.patience.max(pause)
}

/// What to send.
struct Files<'a> {
    found: &'a Found,
    unanswered: &'a Unanswered,
    limit: Option<Rate>,
}

impl Files<'_> {
    /// Everything missing, in the order of the manifest.
    async fn send(
        &self,
        connection: &Connection,
        control: &mut SendStream,
        mut agreed: Agreed,
    ) -> Result<(), TransferError> {
        let throttle = Arc::new(Throttle::new(self.limit));
        let mut sending = JoinSet::new();
        let mut files = (0..).map_while(|at| Some((at, self.found.file(at)?)));
        loop {
            while sending.len() < FILES_AHEAD
                && let Some((at, file)) = files.next()
            {
                if agreed.unchanged.contains(&at) {
                    continue;
                }
                let gaps = agreed.gaps.remove(&at).unwrap_or_else(|| Gaps::whole(file.bytes()));
                // In order, so that the receiver can match them.
                let stream = if gaps.is_empty() { None } else { Some(open(connection, at).await?) };
                let (file, throttle) = (file.clone(), Arc::clone(&throttle));
                sending.spawn(async move { (at, send_file(stream, &file, gaps, throttle).await) });
            }
            let Some(sent) = sending.join_next().await else { return Ok(()) };
            match sent.map_err(background)? {
                (file, Ok(hash)) => {
                    self.unanswered.insert(file);
                    let sent = message::encode(&FromSender::FileSent { file, hash: *hash.as_bytes() });
                    control.write_chunk(sent.into()).await.map_err(broken)?;
                }
                (_, Err(error)) => {
                    abort(control, &error).await;
                    return Err(error);
                }
            }
        }
    }
}

/// Signals to the receiver why the transfer stops.
pub(super) async fn abort(control: &mut SendStream, error: &TransferError) {
    let abort = FromSender::Abort { reason: message::reason(error) };
    let sent = async {
        let _ = control.write_chunk(message::encode(&abort).into()).await;
        let _ = control.finish();
        control.stopped().await
    };
    let _ = timeout(FINAL_PATIENCE, sent).await;
}

/// A stream for a file; earlier files have priority, and the control stream before all.
async fn open(connection: &Connection, at: u32) -> Result<SendStream, TransferError> {
    let stream = connection.open_uni().await.map_err(lost)?;
    // The stream is open, so it has a priority.
    let _ = stream.set_priority(i32::try_from(at).map_or(i32::MIN, |at| -1 - at));
    Ok(stream)
}

/// Sends the missing ranges of one file on one stream; returns its hash.
async fn send_file(
    stream: Option<SendStream>,
    file: &manifest::SourceEntry,
    gaps: Gaps,
    throttle: Arc<Throttle>,
) -> Result<blake3::Hash, TransferError> {
    let (path, bytes, len) = (file.path.clone(), file.bytes(), gaps.len());
    let source = blocking(move || FileSource::open(&path, bytes, gaps, throttle)).await?;
    let source = Arc::new(source.map_err(|error| read_error(&file.path, error))?);
    if let Some(mut stream) = stream {
        stream.send_file(Arc::clone(&source), len).await.map_err(|error| match error {
            SendFileError::Read { error, .. } => read_error(&file.path, error),
            SendFileError::Shrunk(_) => TransferError::Shrunk(file.path.clone()),
            SendFileError::ConnectionLost(error) => lost(error),
            error => TransferError::Lost(error.to_string()),
        })?;
    }
    let hash = blocking(move || match Arc::into_inner(source) {
        Some(source) => source.finish(),
        None => Err(io::Error::other("the file is still in use")),
    });
    hash.await?.map_err(|error| read_error(&file.path, error))
}

/// Bytes that are sent or nearly so: given to the primary, or SACKed. No byte counts twice.
fn delivered(connection: &Connection) -> u64 {
    let Some(stats) = connection.try_stats() else { return 0 };
    let rlp: u64 = stats.sent.levels.iter().map(|level| level.delivered_bytes).sum();
    stats.sent.primary_bytes + rlp
}

/// A reply that ends the transfer.
pub(super) fn unwelcome(reply: FromReceiver, found: &Found) -> TransferError {
    match reply {
        FromReceiver::Refused { refusal, reason } => {
            let reason = printable(&reason);
            match refusal {
                Refusal::Unauthorised => TransferError::Unauthorised(reason),
                Refusal::Exists => TransferError::Exists(reason),
                Refusal::Version | Refusal::Manifest => TransferError::Refused(reason),
                Refusal::Storage => TransferError::Peer(reason),
            }
        }
        FromReceiver::FileFailed { file, fault, reason } => {
            let name = found.file(file).map_or_else(|| "a file".to_owned(), |file| file.name.to_string());
            match fault {
                Fault::NotVerified => TransferError::NotVerified(name),
                Fault::Exists => TransferError::Exists(name),
                Fault::Storage => TransferError::peer(&reason),
            }
        }
        FromReceiver::Accepted
        | FromReceiver::Missing { .. }
        | FromReceiver::FileDone { .. }
        | FromReceiver::Finished
        | FromReceiver::Compare { .. }
        | FromReceiver::Have { .. }
        | FromReceiver::Working(_) => TransferError::Protocol("an unexpected reply".to_owned()),
    }
}

/// Why the connection failed, as an error of this program.
pub(super) fn broken(error: WriteError) -> TransferError {
    match error {
        WriteError::ConnectionLost(error) => lost(error),
        error => TransferError::Lost(error.to_string()),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, TransferError> {
    tokio::task::spawn_blocking(work).await.map_err(background)
}
