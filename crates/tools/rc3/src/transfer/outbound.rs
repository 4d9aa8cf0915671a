//! One transfer at the sender, from the connection to the receiver's last message.
//!
//! Files go in order on separate streams, a few at a time. The next files are on offer before the first has arrived, so
//! many small files fill the path as one large file does; earlier files have priority. Memory: the connection's
//! buffers, whatever the files' sizes, and a bounded part of the receiver's messages.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
    message::{self, ALPN, Change, Fault, FromReceiver, FromSender, Refusal, Skip, VERSION},
    moved::Moved,
    not_connected,
    outcome::Unkept,
    paths::printable,
    plan,
    progress::{Reporter, Steered, Summary},
    send::SendJob,
    source::{FileSource, READ_BYTES_MIN, Throttle, read_error},
    transport,
};
use crate::figures::PathFigures;

/// Most files read at a time, whatever their size.
const FILES_AHEAD: usize = 8;
/// Most small files read at a time: enough that they fill the path as one large file does.
const SMALL_FILES_AHEAD: usize = 128;
/// Most bytes of files read at a time, if they are more than [`FILES_AHEAD`].
const BYTES_AHEAD: u64 = 4 << 20;
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
) -> Result<Unkept, TransferError> {
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
) -> Result<Unkept, TransferError> {
    let opened = timeout(job.patience, connection.open_bi()).await;
    let (mut control, replies) =
        opened.map_err(|_| TransferError::Stalled(job.patience))?.map_err(before_any_reply)?;
    let mut replies = Replies::new(connection, message::listen(replies), job.patience);

    let first = first_reply(&mut control, &mut replies, job, found, reporter).await;
    // Closed before any message: the receiver has no free slot.
    let first = first.map_err(|error| connection.close_reason().map_or(error, before_any_reply))?;
    let agreed = match agree(&mut replies, first, &mut control, found, reporter).await {
        Err(error @ (TransferError::Read { .. } | TransferError::Shrunk(_))) => {
            abort(&mut control, &error).await;
            return Err(error);
        }
        agreed => agreed?,
    };
    if job.dry_run {
        plan::list(found, &agreed, reporter);
        reporter.would_send(agreed.files_to_send(found), agreed.bytes_to_send(found));
        return Ok(agreed.unkept(found));
    }
    let unchanged_files = agreed.unchanged_files();
    let peer = connection.remote_address().to_string();
    reporter.start(found.file_count(), found.bytes(), &peer, connection.is_rc3());
    reporter.files_there(unchanged_files);
    let unkept = deliver(connection, &mut control, &mut replies, job, found, agreed, reporter).await?;
    let path = PathFigures::of(&connection.stats(), endpoint.marks());
    reporter.done(Summary { unchanged_files, path: Some(path), ..summary(connection, found, reporter) });
    Ok(unkept)
}

/// Sends the manifest; returns the receiver's first answer.
async fn first_reply(
    control: &mut SendStream,
    replies: &mut Replies<'_>,
    job: &SendJob,
    found: &Found,
    reporter: &mut Reporter,
) -> Result<FromReceiver, TransferError> {
    // The answer may arrive before the manifest is complete: the receiver then ignores the rest.
    let mut manifest = Box::pin(say_manifest(control, job, found));
    let mut all_said = false;
    loop {
        tokio::select! {
            said = &mut manifest, if !all_said => {
                all_said = true;
                if let Err(error) = said {
                    // A refusing receiver may stop reading first.
                    return replies.soon().await.map_err(|_| error);
                }
            }
            reply = replies.soon() => match reply {
                Ok(FromReceiver::Working(work)) => reporter.waiting(work),
                reply => return reply,
            },
        }
    }
}

/// Sends what is agreed, until the receiver has settled every file; returns what is not in place.
async fn deliver(
    connection: &Connection,
    control: &mut SendStream,
    replies: &mut Replies<'_>,
    job: &SendJob,
    found: &Found,
    agreed: Agreed,
    reporter: &mut Reporter,
) -> Result<Unkept, TransferError> {
    let total = found.bytes();
    let there = total - agreed.bytes_to_send(found);
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let unanswered = Unanswered::new(found, &agreed);
    let files = Files { found, unanswered: &unanswered, limit: job.rate_limit };
    let mut unkept = agreed.unkept(found);
    let mut sending = Box::pin(files.send(connection, control, agreed));
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
                    FromReceiver::Finished if unanswered.is_empty() => return Ok(unkept),
                    FromReceiver::Working(work) => reporter.waiting(work),
                    reply => unanswered.settle(reply, found, &mut unkept, reporter)?,
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
}

/// The figures of a complete transfer.
fn summary(connection: &Connection, found: &Found, reporter: &Reporter) -> Summary {
    let (seconds, bytes) = (reporter.elapsed(), found.bytes());
    let stats = connection.stats();
    let steered = stats.kickass.map(|kickass| kickass.steered_until(Instant::now()).as_secs_f64());
    let stats = stats.sent;
    Summary {
        files: found.file_count(),
        unchanged_files: 0,
        bytes,
        seconds,
        bytes_per_second: bytes as f64 / seconds.max(1e-9),
        primary_bytes: stats.primary_bytes,
        rlp_bytes: stats.levels.iter().skip(1).map(|level| level.delivered_bytes).collect(),
        duplicate_bytes: stats.duplicate_bytes,
        steered_seconds: steered,
        path: None,
    }
}

pub(super) async fn connect(
    endpoint: &Endpoint,
    address: SocketAddr,
    job: &SendJob,
) -> Result<Connection, TransferError> {
    let mut config = ClientConfig::new(Arc::new(identity::client(job.ticket.fingerprint(), ALPN)?));
    // A receiver opens no streams.
    let mut transport = transport(job.rlp, job.congestion, job.qlog.as_deref(), 0, job.idle_timeout)?;
    if let Some(mtu) = job.mtu {
        transport.path_mtu_max(mtu);
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
async fn say_manifest(control: &mut SendStream, job: &SendJob, found: &Found) -> Result<(), TransferError> {
    let secret = job.ticket.secret().0;
    let mut batch = message::encode(&FromSender::Hello { version: VERSION, secret });
    if job.dry_run {
        batch.extend(message::encode(&FromSender::DryRun));
    }
    for entry in &found.entries {
        batch.extend(message::encode(&FromSender::Entry(entry.entry())));
        if batch.len() >= MANIFEST_BATCH_BYTES {
            control.write_chunk(std::mem::take(&mut batch).into()).await.map_err(broken)?;
        }
    }
    batch.extend(message::encode(&FromSender::ManifestEnd));
    control.write_chunk(batch.into()).await.map_err(broken)
}

/// What need not be sent, and why.
#[derive(Default)]
pub(super) struct Agreed {
    /// Missing ranges of files that the receiver has parts of.
    gaps: HashMap<u32, Gaps>,
    /// Files that the receiver has, by their hashes.
    unchanged: HashSet<u32>,
    /// Entries that the receiver does not create.
    skipped: HashMap<u32, Skip>,
    /// Files of a dry run that exist with other content.
    changes: HashMap<u32, Change>,
    /// Files and links among the skipped entries.
    skipped_files: HashSet<u32>,
}

impl Agreed {
    /// What a stream carries of a file; `None` if nothing is to be sent, not even its hash.
    fn to_send(&self, at: u32, file: &manifest::SourceEntry) -> Option<Gaps> {
        if file.is_link() || self.unchanged.contains(&at) || self.skipped_files.contains(&at) {
            return None;
        }
        let whole = || Gaps::whole(file.bytes());
        Some(self.gaps.get(&at).cloned().unwrap_or_else(whole).without(&file.holes()))
    }

    fn bytes_to_send(&self, found: &Found) -> u64 {
        let gaps = |(at, file)| Some(self.to_send(at, file)?.len());
        found.files().filter_map(gaps).sum()
    }

    /// Files that exist already, links included.
    fn unchanged_files(&self) -> usize {
        let same = |skip: &&Skip| matches!(skip, Skip::SameTime | Skip::SameLink);
        self.unchanged.len() + self.skipped.values().filter(same).count()
    }

    /// Files about which the receiver sends no further message.
    fn settled_files(&self, found: &Found) -> usize {
        let settled = |at: &u32| self.unchanged.contains(at) || self.skipped_files.contains(at);
        found.files().filter(|(at, _)| settled(at)).count()
    }

    fn unkept(&self, found: &Found) -> Unkept {
        let mut unkept = Unkept::default();
        let mut skipped: Vec<_> = self.skipped.iter().collect();
        skipped.sort_unstable_by_key(|(entry, _)| **entry);
        for (&entry, &skip) in skipped {
            if let Some(entry) = found.entries.get(entry as usize) {
                unkept.add_skip(entry.name.clone(), skip);
            }
        }
        unkept
    }

    fn files_to_send(&self, found: &Found) -> usize {
        found.file_count() - self.settled_files(found)
    }

    /// What happens to a directory, in one word.
    pub(super) fn directory_action(&self, entry: u32) -> &'static str {
        match self.skipped.get(&entry) {
            Some(Skip::Conflict) => "conflict",
            Some(_) => "left-out",
            None => "directory",
        }
    }

    /// What happens to a file, in one word.
    pub(super) fn action(&self, at: u32, entry: u32) -> &'static str {
        match (self.skipped.get(&entry), self.changes.get(&at)) {
            (Some(Skip::SameTime | Skip::SameLink), _) => "same",
            (Some(Skip::Conflict), _) => "conflict",
            (Some(Skip::Name | Skip::Outside), _) => "left-out",
            (None, Some(Change::Replace)) => "replace",
            (None, Some(Change::KeepBoth)) => "keep-both",
            (None, None) if self.unchanged.contains(&at) => "same",
            (None, None) if self.gaps.contains_key(&at) => "continue",
            (None, None) => "send",
        }
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
                let contradicts = !compared.contains(&at)
                    || agreed.gaps.contains_key(&at)
                    || agreed.skipped_files.contains(&at);
                if contradicts || !agreed.unchanged.insert(at) {
                    return Err(protocol("`Have` without a comparison"));
                }
            }
            FromReceiver::Missing { file: at, gaps } => {
                all_gaps += gaps.len();
                let contradicts = all_gaps > ALL_GAPS_MAX
                    || agreed.unchanged.contains(&at)
                    || agreed.skipped_files.contains(&at);
                let gaps = found.file(at).and_then(|file| Gaps::parse(&gaps, file.bytes()));
                if contradicts || gaps.is_none_or(|gaps| agreed.gaps.insert(at, gaps).is_some()) {
                    return Err(protocol("impossible gaps"));
                }
            }
            FromReceiver::Skip { entry, skip } => {
                let file = found.file_of_entry(entry);
                let contradicts = file
                    .is_some_and(|at| agreed.unchanged.contains(&at) || agreed.gaps.contains_key(&at))
                    || entry as usize >= found.entries.len();
                if contradicts || agreed.skipped.insert(entry, skip).is_some() {
                    return Err(protocol("an impossible `Skip`"));
                }
                agreed.skipped_files.extend(file);
            }
            FromReceiver::Would { file: at, change } => {
                if found.file(at).is_none() || agreed.changes.insert(at, change).is_some() {
                    return Err(protocol("a change of an unknown file"));
                }
            }
            other => return Err(unwelcome(other, found)),
        }
        reply = replies.soon().await?;
    }
}

/// Files about which the receiver still owes a message, each with whether it has all it needs.
struct Unanswered(Mutex<HashMap<u32, bool>>);

impl Unanswered {
    fn new(found: &Found, agreed: &Agreed) -> Self {
        let open = |(at, file): &(u32, &manifest::SourceEntry)| {
            !agreed.skipped_files.contains(at) && (file.is_link() || agreed.to_send(*at, file).is_some())
        };
        // A link is complete in the manifest.
        let of = |(at, file): (u32, &manifest::SourceEntry)| (at, file.is_link());
        Self(Mutex::new(found.files().filter(open).map(of).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file is sent completely.
    fn sent(&self, file: u32) {
        if let Some(sent) = self.lock().get_mut(&file) {
            *sent = true;
        }
    }

    /// Whether every file is settled.
    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Handles a message about one file.
    fn settle(
        &self,
        reply: FromReceiver,
        found: &Found,
        unkept: &mut Unkept,
        reporter: &mut Reporter,
    ) -> Result<(), TransferError> {
        match reply {
            FromReceiver::FileDone { file: at } if self.remove(at) => {
                if let Some(file) = found.file(at) {
                    reporter.file(&file.name, file.bytes());
                }
            }
            FromReceiver::FileFailed { file: at, fault, .. }
                if fault != Fault::Storage && self.give_up(at) =>
            {
                if let Some(file) = found.file(at) {
                    unkept.add_fault(file.name.clone(), fault);
                }
            }
            other => return Err(unwelcome(other, found)),
        }
        Ok(())
    }

    /// The receiver has the file; whether it can.
    fn remove(&self, file: u32) -> bool {
        let mut files = self.lock();
        files.get(&file) == Some(&true) && files.remove(&file).is_some()
    }

    /// The receiver does not keep the file; whether it was expected.
    fn give_up(&self, file: u32) -> bool {
        self.lock().remove(&file).is_some()
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
        agreed: Agreed,
    ) -> Result<(), TransferError> {
        let throttle = Arc::new(Throttle::new(self.limit));
        let mut sending = JoinSet::new();
        let mut on_offer = 0;
        let mut files =
            self.found.files().filter_map(|(at, file)| Some((at, file, agreed.to_send(at, file)?)));
        loop {
            while (sending.len() < FILES_AHEAD
                || (sending.len() < SMALL_FILES_AHEAD && on_offer < BYTES_AHEAD))
                && let Some((at, file, gaps)) = files.next()
            {
                // In order, so that the receiver can match them.
                let stream = if gaps.is_empty() { None } else { Some(open(connection, at).await?) };
                let (file, throttle) = (file.clone(), Arc::clone(&throttle));
                let len = gaps.len();
                on_offer += len;
                sending.spawn(async move { (len, (at, send_file(stream, &file, gaps, throttle).await)) });
            }
            let Some(sent) = sending.join_next().await else { return Ok(()) };
            let (len, sent) = sent.map_err(background)?;
            on_offer -= len;
            match sent {
                // The receiver reports why it stopped reading.
                (_, Ok(None)) => {}
                (file, Ok(Some(hash))) => {
                    self.unanswered.sent(file);
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

/// Sends the missing ranges of one file on one stream; returns its hash, or `None` if the receiver stops reading.
async fn send_file(
    stream: Option<SendStream>,
    file: &manifest::SourceEntry,
    gaps: Gaps,
    throttle: Arc<Throttle>,
) -> Result<Option<blake3::Hash>, TransferError> {
    let (path, bytes, len) = (file.path.clone(), file.bytes(), gaps.len());
    let source = blocking(move || FileSource::open(&path, bytes, gaps, throttle)).await?;
    let source = Arc::new(source.map_err(|error| read_error(&file.path, error))?);
    if let Some(mut stream) = stream {
        match stream.send_file(Arc::clone(&source), len).await {
            Ok(()) => {}
            Err(SendFileError::SinkFailed | SendFileError::Stopped(_)) => return Ok(None),
            Err(SendFileError::Read { error, .. }) => return Err(read_error(&file.path, error)),
            Err(SendFileError::Shrunk(_)) => return Err(TransferError::Shrunk(file.path.clone())),
            Err(SendFileError::ConnectionLost(error)) => return Err(lost(error)),
            Err(error) => return Err(TransferError::Lost(error.to_string())),
        }
    }
    let hash = blocking(move || match Arc::into_inner(source) {
        Some(source) => source.finish(),
        None => Err(io::Error::other("the file is still in use")),
    });
    hash.await?.map(Some).map_err(|error| read_error(&file.path, error))
}

/// Bytes that are sent or nearly so: given to the primary, or SACKed. No byte counts twice.
fn delivered(connection: &Connection) -> u64 {
    let Some(stats) = connection.try_stats() else { return 0 };
    let rlp: u64 = stats.sent.levels.iter().map(|level| level.delivered_bytes).sum();
    stats.sent.primary_bytes + rlp
}

fn name(found: &Found, file: u32) -> String {
    found.file(file).map_or_else(|| "a file".to_owned(), |file| file.name.to_string())
}

/// A reply that ends the transfer.
pub(super) fn unwelcome(reply: FromReceiver, found: &Found) -> TransferError {
    match reply {
        FromReceiver::Refused { refusal, reason } => {
            let reason = printable(&reason);
            match refusal {
                Refusal::Unauthorised => TransferError::Unauthorised(reason),
                Refusal::Version | Refusal::Manifest => TransferError::Refused(reason),
                Refusal::Storage => TransferError::Peer(reason),
                Refusal::Exists => TransferError::Conflicts(1),
            }
        }
        FromReceiver::FileFailed { file, fault, reason } => match fault {
            Fault::NotVerified => TransferError::NotVerified(name(found, file)),
            Fault::Storage => TransferError::peer(&reason),
            Fault::Exists | Fault::Name => TransferError::Protocol("a fault of an unknown file".to_owned()),
        },
        FromReceiver::Accepted
        | FromReceiver::Missing { .. }
        | FromReceiver::FileDone { .. }
        | FromReceiver::Finished
        | FromReceiver::Compare { .. }
        | FromReceiver::Have { .. }
        | FromReceiver::Skip { .. }
        | FromReceiver::Would { .. }
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
