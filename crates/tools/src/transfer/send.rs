//! The sending side: `rc3 send`.
//!
//! Files go in order, each on a stream of its own, a few at a time: the next ones are on offer before the first
//! has arrived, so many small files fill the path as one large one does, and the first has priority. Memory: what
//! the connection holds of the files' content, whatever their size.

use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_core::units::Rate;
use rc3_net::{
    ClientConfig, Congestion, Connection, ConnectionError, Endpoint, RlpMode, SendStream, TransportErrorCode,
    WriteError, file::SendFileError,
};
use tokio::{task::JoinSet, time::MissedTickBehavior};

use super::{
    close_code,
    error::TransferError,
    gaps::Gaps,
    identity::{self, SERVER_NAME},
    interrupted, lost,
    manifest::{self, Found},
    message::{self, ALPN, Fault, FromReceiver, FromSender, Refusal, VERSION},
    paths::printable,
    progress::{Reporter, Steered, Summary},
    source::{Source, Throttle, read_error},
    ticket::Ticket,
    transport,
};
use crate::{mtu, units::about_bytes};

/// Files that are read at a time.
const FILES_AHEAD: usize = 8;
/// Messages written at a time while the manifest is sent.
const MANIFEST_BATCH_BYTES: usize = 1 << 16;

/// What to send, where, and how.
#[derive(Debug, Clone)]
pub struct SendJob {
    /// Files and directories.
    pub paths: Vec<PathBuf>,
    /// Whom to.
    pub ticket: Ticket,
    /// Only say what would be sent.
    pub dry_run: bool,
    /// How fast to read files, on average.
    pub rate_limit: Option<Rate>,
    /// Whether the RLP loop may run.
    pub rlp: RlpMode,
    /// Who decides how fast to send at normal priority.
    pub congestion: Congestion,
    /// The longest IP packet to try; `None` for what the library does by itself.
    pub mtu: Option<u16>,
    /// Where qlog files go.
    pub qlog: Option<PathBuf>,
}

/// Sends it all, until it is in place at the receiver.
///
/// # Errors
/// See [`TransferError`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn send(job: SendJob, reporter: &mut Reporter) -> Result<(), TransferError> {
    let paths = job.paths.clone();
    let found = blocking(move || Found::scan(&paths)).await??;
    found.skipped.iter().for_each(|path| reporter.skipped(path));
    if found.entries.is_empty() {
        return Err(TransferError::Nothing);
    }
    if job.dry_run {
        list(&found);
        return Ok(());
    }
    let address = resolve(&job.ticket).await?;
    let local = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let endpoint = Endpoint::client(local)
        .map_err(|error| TransferError::Local { what: "open a UDP socket".to_owned(), error })?;
    let outcome = tokio::select! {
        outcome = converse(&endpoint, address, &job, found, reporter) => outcome,
        () = interrupted() => Err(TransferError::Interrupted),
    };
    let (code, reason) = close_code(&outcome);
    endpoint.close(code, reason.as_bytes());
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    outcome
}

/// The whole conversation with one receiver.
async fn converse(
    endpoint: &Endpoint,
    address: SocketAddr,
    job: &SendJob,
    found: Found,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let mut config = ClientConfig::new(Arc::new(identity::client(job.ticket.fingerprint(), ALPN)?));
    let mut transport = transport(job.rlp, job.congestion, job.qlog.as_deref())?;
    if let Some(mtu) = job.mtu {
        transport.mtu_discovery_config(Some(mtu::discovery(mtu, address)));
    }
    config.transport_config(Arc::new(transport));
    let refused = |error: &dyn ToString| TransferError::Connect { address, reason: error.to_string() };
    let connecting = endpoint.connect_with(config, address, SERVER_NAME).map_err(|error| refused(&error))?;
    let connection = connecting.await.map_err(|error| not_connected(address, &error))?;
    let (mut control, replies) = connection.open_bi().await.map_err(lost)?;
    let mut replies: Replies = message::listen(replies);

    // An answer may come before all is said: then nobody listens to the rest.
    let mut manifest = Box::pin(say_manifest(&mut control, &job.ticket, &found));
    let answer = tokio::select! {
        said = &mut manifest => {
            // A receiver that says no may stop listening first.
            match (said, replies.recv().await) {
                (_, Some(Ok(reply))) => reply,
                (Err(error), _) => return Err(error),
                (Ok(()), reply) => expect(&connection, reply)?,
            }
        }
        reply = replies.recv() => expect(&connection, reply)?,
    };
    drop(manifest);
    let gaps = missing(&connection, &mut replies, answer, &found.files).await?;

    let total = found.bytes();
    let known = gaps.iter().filter_map(|(&at, gaps)| Some((found.files.get(at as usize)?, gaps)));
    let there: u64 = known.map(|(file, gaps)| file.bytes - gaps.len()).sum();
    reporter.start(found.files.len(), total, &address.to_string(), connection.is_rc3());
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sending = Box::pin(send_files(&connection, &mut control, &found.files, gaps, job.rate_limit));
    let mut all_sent = false;
    loop {
        tokio::select! {
            sent = &mut sending, if !all_sent => {
                all_sent = true;
                if let Err(error) = sent {
                    // The receiver may have said why it went away.
                    return Err(last_word(&mut replies, &found.files).await.unwrap_or(error));
                }
            }
            reply = replies.recv() => match expect(&connection, reply)? {
                FromReceiver::FileDone { file } => {
                    let Some(file) = usize::try_from(file).ok().and_then(|at| found.files.get(at)) else {
                        return Err(TransferError::Protocol("a file that was not sent".to_owned()));
                    };
                    reporter.file(file.name.as_str(), file.bytes);
                }
                FromReceiver::Finished if all_sent => break,
                other => return Err(unwelcome(other, &found.files)),
            },
            _ = tick.tick() => {
                reporter.steered = connection.try_stats().and_then(|stats| stats.kickass).map(Steered::from);
                reporter.progress((there + delivered(&connection)).min(total));
            }
        }
    }
    let seconds = reporter.elapsed();
    let stats = connection.stats();
    let steered = stats.kickass.map(|kickass| kickass.steered_until(Instant::now()).as_secs_f64());
    let stats = stats.sent;
    reporter.done(Summary {
        files: found.files.len(),
        bytes: total,
        seconds,
        bytes_per_second: total as f64 / seconds.max(1e-9),
        primary_bytes: stats.primary_bytes,
        rlp_bytes: stats.levels.iter().skip(1).map(|level| level.delivered_bytes).collect(),
        duplicate_bytes: stats.duplicate_bytes,
        steered_seconds: steered,
    });
    Ok(())
}

/// `Hello` and the manifest.
async fn say_manifest(control: &mut SendStream, ticket: &Ticket, found: &Found) -> Result<(), TransferError> {
    let mut batch = message::encode(&FromSender::Hello { version: VERSION, secret: ticket.secret().0 });
    for entry in &found.entries {
        batch.extend(message::encode(&FromSender::Entry(entry.clone())));
        if batch.len() >= MANIFEST_BATCH_BYTES {
            control.write_chunk(std::mem::take(&mut batch).into()).await.map_err(broken)?;
        }
    }
    batch.extend(message::encode(&FromSender::ManifestEnd));
    control.write_chunk(batch.into()).await.map_err(broken)
}

/// What the receiver says is missing of files it has parts of, up to its word that the rest may begin.
async fn missing(
    connection: &Connection,
    replies: &mut Replies,
    mut reply: FromReceiver,
    files: &[manifest::Source],
) -> Result<HashMap<u32, Gaps>, TransferError> {
    let mut missing = HashMap::new();
    loop {
        match reply {
            FromReceiver::Accepted => return Ok(missing),
            FromReceiver::Missing { file: at, gaps } => {
                let file = usize::try_from(at).ok().and_then(|at| files.get(at));
                let gaps = file.and_then(|file| Gaps::parse(&gaps, file.bytes));
                if gaps.is_none_or(|gaps| missing.insert(at, gaps).is_some()) {
                    return Err(TransferError::Protocol("gaps that cannot be".to_owned()));
                }
            }
            other => return Err(unwelcome(other, files)),
        }
        let next = replies.recv().await;
        reply = expect(connection, next)?;
    }
}

/// All files, in the order of the manifest.
async fn send_files(
    connection: &Connection,
    control: &mut SendStream,
    files: &[manifest::Source],
    mut gaps: HashMap<u32, Gaps>,
    limit: Option<Rate>,
) -> Result<(), TransferError> {
    let throttle = Arc::new(Throttle::new(limit));
    let mut sending = JoinSet::new();
    let mut files = (0u32..).zip(files);
    loop {
        while sending.len() < FILES_AHEAD
            && let Some((at, file)) = files.next()
        {
            let gaps = gaps.remove(&at).unwrap_or_else(|| Gaps::whole(file.bytes));
            // One after the other, so that the receiver knows which is which.
            let stream = if gaps.is_empty() { None } else { Some(open(connection, at).await?) };
            let (file, throttle) = (file.clone(), Arc::clone(&throttle));
            sending.spawn(async move { (at, send_file(stream, &file, gaps, throttle).await) });
        }
        let Some(sent) = sending.join_next().await else { return Ok(()) };
        match sent.unwrap_or_else(|error| (0, Err(background(error)))) {
            (file, Ok(hash)) => {
                let sent = message::encode(&FromSender::FileSent { file, hash: *hash.as_bytes() });
                control.write_chunk(sent.into()).await.map_err(broken)?;
            }
            (_, Err(error)) => {
                let abort = FromSender::Abort { reason: message::reason(&error) };
                let told = async {
                    let _ = control.write_chunk(message::encode(&abort).into()).await;
                    let _ = control.finish();
                    control.stopped().await
                };
                let _ = tokio::time::timeout(Duration::from_secs(2), told).await;
                return Err(error);
            }
        }
    }
}

/// A stream for a file; those of earlier files go first, and the conversation before all.
async fn open(connection: &Connection, at: u32) -> Result<SendStream, TransferError> {
    let stream = connection.open_uni().await.map_err(lost)?;
    // It is open, so it has a priority.
    let _ = stream.set_priority(i32::try_from(at).map_or(i32::MIN, |at| -1 - at));
    Ok(stream)
}

/// What is missing of one file on one stream; its hash.
async fn send_file(
    stream: Option<SendStream>,
    file: &manifest::Source,
    gaps: Gaps,
    throttle: Arc<Throttle>,
) -> Result<blake3::Hash, TransferError> {
    let (path, bytes, len) = (file.path.clone(), file.bytes, gaps.len());
    let source = blocking(move || Source::open(&path, bytes, gaps, throttle)).await?;
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

/// Bytes that have left for good or nearly so: given to the primary, or SACKed. None counts as both.
fn delivered(connection: &Connection) -> u64 {
    let Some(stats) = connection.try_stats() else { return 0 };
    let rlp: u64 = stats.sent.levels.iter().map(|level| level.delivered_bytes).sum();
    stats.sent.primary_bytes + rlp
}

type Replies = message::Messages<FromReceiver>;

/// A reply, or why there is none.
fn expect(
    connection: &Connection,
    reply: Option<Result<FromReceiver, message::MessageError>>,
) -> Result<FromReceiver, TransferError> {
    match (reply, connection.close_reason()) {
        (Some(Ok(reply)), _) => Ok(reply),
        (_, Some(error)) => Err(lost(error)),
        (Some(Err(error)), None) => Err(error.into()),
        (None, None) => Err(TransferError::Lost("the control stream ended".to_owned())),
    }
}

/// What the receiver said before it went away, if that explains it.
async fn last_word(replies: &mut Replies, files: &[manifest::Source]) -> Option<TransferError> {
    let word = async {
        while let Some(Ok(reply)) = replies.recv().await {
            if matches!(reply, FromReceiver::FileFailed { .. } | FromReceiver::Refused { .. }) {
                return Some(unwelcome(reply, files));
            }
        }
        None
    };
    tokio::time::timeout(Duration::from_secs(1), word).await.ok().flatten()
}

/// A reply that ends the transfer.
fn unwelcome(reply: FromReceiver, files: &[manifest::Source]) -> TransferError {
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
            let name = usize::try_from(file).ok().and_then(|at| files.get(at));
            let name = name.map_or_else(|| "a file".to_owned(), |file| file.name.to_string());
            match fault {
                Fault::NotVerified => TransferError::NotVerified(name),
                Fault::Exists => TransferError::Exists(name),
                Fault::Storage => TransferError::Peer(printable(&reason)),
            }
        }
        FromReceiver::Accepted
        | FromReceiver::Missing { .. }
        | FromReceiver::FileDone { .. }
        | FromReceiver::Finished => TransferError::Protocol("a reply out of turn".to_owned()),
    }
}

/// Why no connection came about, in our words.
fn not_connected(address: SocketAddr, error: &ConnectionError) -> TransferError {
    // TLS alert 49, access_denied: our own check of the certificate said no. 120: no_application_protocol.
    let reason = match error {
        ConnectionError::TransportError(error) if error.code == TransportErrorCode::crypto(49) => {
            return TransferError::WrongReceiver(address);
        }
        ConnectionError::ConnectionClosed(close) if close.error_code == TransportErrorCode::crypto(120) => {
            return TransferError::Refused("it speaks another version".to_owned());
        }
        ConnectionError::TimedOut => "no answer".to_owned(),
        error => error.to_string(),
    };
    TransferError::Connect { address, reason: printable(&reason) }
}

fn broken(error: WriteError) -> TransferError {
    match error {
        WriteError::ConnectionLost(error) => lost(error),
        error => TransferError::Lost(error.to_string()),
    }
}

async fn resolve(ticket: &Ticket) -> Result<SocketAddr, TransferError> {
    let failed = |error| TransferError::Resolve { host: ticket.host().to_owned(), error };
    let mut addresses = tokio::net::lookup_host((ticket.host(), ticket.port())).await.map_err(failed)?;
    addresses.next().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

/// What a dry run prints: to standard output, it is what was asked for.
fn list(found: &Found) {
    let mut out = io::stdout().lock();
    for entry in &found.entries {
        let slash = if matches!(entry.kind, message::Kind::Directory) { "/" } else { "" };
        // Printed raw into a pipe, where a program may want the name as it is.
        let name = if out.is_terminal() { printable(&entry.path) } else { entry.path.clone() };
        if writeln!(out, "{name}{slash}").is_err() {
            return;
        }
    }
    let _ = writeln!(
        io::stderr(),
        "would send {} in {}",
        about_bytes(found.bytes()),
        super::progress::count(found.files.len(), "file")
    );
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, TransferError> {
    tokio::task::spawn_blocking(work).await.map_err(background)
}

fn background(error: tokio::task::JoinError) -> TransferError {
    TransferError::Local { what: "read in the background".to_owned(), error: error.into() }
}
