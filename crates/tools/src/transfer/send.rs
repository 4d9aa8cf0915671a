//! The sending side: `rc3 send`.
//!
//! Files go one after the other, each on a stream of its own; the next begins when the last has been read,
//! not when it has arrived, so many small files fill the path as one large one does. Memory: a few pieces of
//! one file, and what the connection's send window holds.

use std::{
    fs::File,
    io::{self, IsTerminal, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rc3_core::units::Rate;
use rc3_net::{
    ClientConfig, Connection, ConnectionError, Endpoint, RlpMode, SendStream, TransportErrorCode, VarInt,
    WriteError,
};
use tokio::{sync::mpsc, time::MissedTickBehavior};

use super::{
    close_code,
    error::TransferError,
    identity::{self, SERVER_NAME},
    interrupted, lost,
    manifest::{Found, Source},
    message::{self, ALPN, Fault, FromReceiver, FromSender, Refusal, VERSION},
    paths::printable,
    progress::{Reporter, Summary},
    ticket::Ticket,
    transport,
};
use crate::units::about_bytes;

/// Bytes read from a file at a time.
const PIECE_BYTES: usize = 1 << 18;
/// Pieces read ahead.
const PIECES_AHEAD: usize = 4;
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
    config.transport_config(Arc::new(transport(job.rlp, job.qlog.as_deref())?));
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
    match answer {
        FromReceiver::Accepted => {}
        other => return Err(unwelcome(other, &found.files)),
    }

    let total = found.bytes();
    reporter.start(found.files.len(), total, &address.to_string(), connection.is_rc3());
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sending = Box::pin(send_files(&connection, &mut control, &found.files, job.rate_limit));
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
            _ = tick.tick() => reporter.progress(delivered(&connection).min(total)),
        }
    }
    let seconds = reporter.elapsed();
    let stats = connection.stats().sent;
    reporter.done(Summary {
        files: found.files.len(),
        bytes: total,
        seconds,
        bytes_per_second: total as f64 / seconds.max(1e-9),
        primary_bytes: stats.primary_bytes,
        rlp_bytes: stats.levels.iter().skip(1).map(|level| level.delivered_bytes).collect(),
        duplicate_bytes: stats.duplicate_bytes,
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

/// All files, in the order of the manifest.
async fn send_files(
    connection: &Connection,
    control: &mut SendStream,
    files: &[Source],
    limit: Option<Rate>,
) -> Result<(), TransferError> {
    let mut throttle = Throttle { limit, started: Instant::now(), bytes: 0 };
    for (at, file) in files.iter().enumerate() {
        match send_file(connection, file, &mut throttle).await {
            Ok(hash) => {
                let file = u32::try_from(at).unwrap_or(u32::MAX);
                let sent = message::encode(&FromSender::FileSent { file, hash: *hash.as_bytes() });
                control.write_chunk(sent.into()).await.map_err(broken)?;
            }
            Err(error) => {
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
    Ok(())
}

/// One file on one stream; an empty one needs none.
async fn send_file(
    connection: &Connection,
    file: &Source,
    throttle: &mut Throttle,
) -> Result<blake3::Hash, TransferError> {
    if file.bytes == 0 {
        return Ok(blake3::hash(&[]));
    }
    let mut stream = connection.open_uni().await.map_err(lost)?;
    let (pieces_in, mut pieces) = mpsc::channel(PIECES_AHEAD);
    let (source, room) = (file.clone(), throttle.piece());
    let reading = tokio::task::spawn_blocking(move || read_pieces(&source, room, &pieces_in));
    while let Some(piece) = pieces.recv().await {
        throttle.take(piece.len()).await;
        if let Err(error) = stream.write_chunk(piece).await {
            return Err(broken(error));
        }
    }
    let hash = reading.await.map_err(|error| TransferError::Local {
        what: "read in the background".to_owned(),
        error: error.into(),
    })?;
    match hash {
        Ok(hash) => {
            // It cannot have been finished before.
            let _ = stream.finish();
            Ok(hash)
        }
        Err(error) => {
            let _ = stream.reset(VarInt::from_u32(1));
            Err(error)
        }
    }
}

/// Reads exactly the bytes the manifest promised, and hashes them. Ends early when nobody takes the pieces.
fn read_pieces(
    source: &Source,
    room: usize,
    pieces: &mpsc::Sender<Bytes>,
) -> Result<blake3::Hash, TransferError> {
    let failed = |error| TransferError::Read { path: source.path.clone(), error };
    let mut file = File::open(&source.path).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    let mut left = source.bytes;
    while left > 0 {
        let mut piece = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(room)];
        match file.read_exact(&mut piece) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(TransferError::Shrunk(source.path.clone()));
            }
            Err(error) => return Err(failed(error)),
        }
        left -= piece.len() as u64;
        hasher.update(&piece);
        if pieces.blocking_send(piece.into()).is_err() {
            break;
        }
    }
    Ok(hasher.finalize())
}

/// Keeps the mean rate of reading below a limit.
struct Throttle {
    limit: Option<Rate>,
    started: Instant,
    bytes: u64,
}

impl Throttle {
    /// Bytes of a piece: about a tenth of a second's worth, so that slow limits are smooth.
    fn piece(&self) -> usize {
        let tenth = self.limit.map_or(u64::MAX, |rate| rate.bytes_in(Duration::from_millis(100)));
        usize::try_from(tenth).unwrap_or(usize::MAX).clamp(1200, PIECE_BYTES)
    }

    /// Waits until so many more bytes are due.
    async fn take(&mut self, bytes: usize) {
        if let Some(rate) = self.limit {
            let due = self.started + rate.time_for(self.bytes);
            tokio::time::sleep_until(due.into()).await;
        }
        self.bytes += bytes as u64;
    }
}

/// Bytes that have left for good or nearly so: given to the primary, or SACKed, and not both.
fn delivered(connection: &Connection) -> u64 {
    let Some(stats) = connection.try_stats() else { return 0 };
    let rlp: u64 = stats.sent.levels.iter().map(|level| level.delivered_bytes).sum();
    (stats.sent.primary_bytes + rlp).saturating_sub(stats.sent.duplicate_bytes)
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
async fn last_word(replies: &mut Replies, files: &[Source]) -> Option<TransferError> {
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
fn unwelcome(reply: FromReceiver, files: &[Source]) -> TransferError {
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
        FromReceiver::Accepted | FromReceiver::FileDone { .. } | FromReceiver::Finished => {
            TransferError::Protocol("a reply out of turn".to_owned())
        }
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
    tokio::task::spawn_blocking(work).await.map_err(|error| TransferError::Local {
        what: "work in the background".to_owned(),
        error: error.into(),
    })
}
