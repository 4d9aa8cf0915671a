//! One transfer at the sender, from the connection to the receiver's last message.
//!
//! Files go in order on separate streams, a few at a time. The next files are on offer before the first has arrived, so
//! many small files fill the path as one large file does; earlier files have priority. Memory: the connection's
//! buffers, whatever the files' sizes, and a bounded part of the receiver's messages.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_net::{ClientConfig, Connection, Endpoint, SendStream, WriteError};
use tokio::time::{MissedTickBehavior, timeout};

use super::{
    agreed::{Agreed, agree},
    before_any_reply,
    error::TransferError,
    feed::Feed,
    heard,
    identity::{self, SERVER_NAME},
    lost,
    manifest::Found,
    message::{self, ALPN, Fault, FromReceiver, FromSender, Refusal, VERSION},
    moved::Moved,
    not_connected,
    outcome::Unkept,
    paths::printable,
    plan,
    progress::{Reporter, Steered, Summary},
    send::SendJob,
    source::READ_BYTES_MIN,
    transport,
    unanswered::Unanswered,
};
use crate::figures::PathFigures;

/// Messages written at a time while the manifest is sent.
const MANIFEST_BATCH_BYTES: usize = 1 << 16;
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
    let agreed = agree(&mut replies, first, &mut control, found, reporter).await?;
    if job.dry_run {
        plan::list(found, &agreed, reporter);
        reporter.would_send(agreed.files_to_send(found), agreed.bytes_to_send(found));
        return Ok(agreed.unkept(found));
    }
    let (unchanged_files, unchanged_bytes) = agreed.there(found);
    let peer = connection.remote_address().to_string();
    reporter.start(found.file_count(), found.bytes(), &peer, connection.is_rc3());
    reporter.files_there(unchanged_files, unchanged_bytes);
    let unkept = deliver(connection, &mut control, &mut replies, job, found, agreed, reporter).await?;
    let path = PathFigures::of(&connection.stats(), endpoint.marks());
    reporter.done(Summary { unchanged_files, path: Some(path), ..summary(connection, reporter) });
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
    let feed = Feed::new(found, &unanswered, job.rate_limit);
    let mut unkept = agreed.unkept(found);
    let mut sending = Box::pin(feed.send(connection, control, agreed));
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
fn summary(connection: &Connection, reporter: &Reporter) -> Summary {
    let (seconds, (files, bytes)) = (reporter.elapsed(), reporter.in_place());
    let stats = connection.stats();
    let steered = stats.kickass.map(|kickass| kickass.steered_until(Instant::now()).as_secs_f64());
    let stats = stats.sent;
    Summary {
        files,
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
    pub(super) patience: Duration,
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
    for left_out in &found.left_out {
        if let Some(name) = left_out.absent() {
            let reason = message::reason(&left_out.reason);
            batch.extend(message::encode(&FromSender::Absent { path: name.as_bytes().to_owned(), reason }));
        }
    }
    batch.extend(message::encode(&FromSender::ManifestEnd));
    control.write_chunk(batch.into()).await.map_err(broken)
}

/// A low rate limit causes pauses by itself.
fn patience(job: &SendJob) -> Duration {
    let pause = job.rate_limit.map_or(Duration::ZERO, |rate| 3 * rate.time_for(READ_BYTES_MIN as u64));
    job.patience.max(pause)
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
            Fault::Exists | Fault::Name | Fault::Refused | Fault::Shared | Fault::Omitted => {
                TransferError::Protocol("a fault of an unknown file".to_owned())
            }
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
