//! The sending side of a pipe.

use std::{
    io::{self, Read},
    time::Duration,
};

use bytes::Bytes;
use rc3_net::{Connection, Endpoint, SendStream};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, timeout},
};

use super::{
    super::{
        before_any_reply, close_code,
        conclude::conclude,
        error::TransferError,
        lost,
        manifest::Found,
        message::{self, Fault, FromReceiver, FromSender, VERSION},
        outbound::{Replies, abort, broken, connect, unwelcome},
        progress::Reporter,
        send::{SendJob, open, resolve},
        source::Throttle,
    },
    STREAM, input, interrupted_pipe, of_pipe,
    progress::Progress,
};

/// What to send, besides the bytes.
#[derive(Debug, Clone)]
pub struct PipeJob {
    /// The receiver and the transport; without paths.
    pub send: SendJob,
    /// The name of the file that a receiver with a directory writes.
    pub name: Option<String>,
}

/// Sends `input` to its end, until the receiver has verified and written it.
///
/// # Errors
/// See [`TransferError`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn send_pipe(
    job: PipeJob,
    input: impl Read + Send + 'static,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let address = resolve(&job.send.ticket).await?;
    let endpoint = open(&job.send.network, address)?;
    let work = converse(&endpoint, &job, input, reporter);
    conclude(&endpoint, work, interrupted_pipe(), close_code).await
}

async fn converse(
    endpoint: &Endpoint,
    job: &PipeJob,
    input: impl Read + Send + 'static,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let address = resolve(&job.send.ticket).await?;
    let connection = connect(endpoint, address, &job.send).await?;
    let patience = job.send.patience;
    let opened = timeout(patience, connection.open_bi()).await;
    let (mut control, replies) =
        opened.map_err(|_| TransferError::Stalled(patience))?.map_err(before_any_reply)?;
    let mut replies = Replies::new(&connection, message::listen(replies), patience);
    let name = job.name.as_ref().map(|name| name.as_bytes().to_owned());
    let hello = FromSender::Hello { version: VERSION, secret: job.send.ticket.secret().0 };
    let first = [message::encode(&hello), message::encode(&FromSender::Pipe { name })].concat();
    let said = timeout(patience, control.write_chunk(first.into())).await;
    said.map_err(|_| TransferError::Stalled(patience))?.map_err(broken)?;
    loop {
        match replies.soon().await {
            Ok(FromReceiver::Working(work)) => reporter.waiting(work),
            Ok(FromReceiver::Accepted) => break,
            Ok(other) => return Err(ending(other)),
            Err(error) => return Err(connection.close_reason().map_or(error, before_any_reply)),
        }
    }
    let chunks = input::chunks(input, Throttle::new(job.send.rate_limit));
    let peer = connection.remote_address().to_string();
    let mut progress = Progress::start(reporter.style(), "sending", &peer, connection.is_rc3());
    exchange(&connection, &mut control, &mut replies, chunks, &mut progress).await.map_err(of_pipe)
}

/// The bytes, their hash, and the receiver's last message.
async fn exchange(
    connection: &Connection,
    control: &mut SendStream,
    replies: &mut Replies<'_>,
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    progress: &mut Progress,
) -> Result<(), TransferError> {
    let hash = {
        let mut sending = Box::pin(pump(connection, chunks, progress));
        loop {
            tokio::select! {
                sent = &mut sending => break sent,
                reply = replies.next() => match reply? {
                    FromReceiver::Working(_) => {}
                    other => return Err(ending(other)),
                },
            }
        }
    };
    let hash = match hash {
        Ok(hash) => hash,
        Err(error @ TransferError::Input(_)) => {
            abort(control, &error).await;
            return Err(error);
        }
        // The receiver may have given a reason before it closed.
        Err(error) => return Err(replies.send_final(&Found::default()).await.unwrap_or(error)),
    };
    let sent = message::encode(&FromSender::FileSent { file: STREAM, hash: *hash.as_bytes() });
    control.write_chunk(sent.into()).await.map_err(broken)?;
    loop {
        // However long the receiver's reader takes.
        match replies.next().await? {
            FromReceiver::Working(_) => {}
            FromReceiver::Finished => break,
            other => return Err(ending(other)),
        }
    }
    progress.done();
    Ok(())
}

/// A reply that ends the transfer.
fn ending(reply: FromReceiver) -> TransferError {
    match reply {
        // Another file got the name meanwhile.
        FromReceiver::FileFailed { file: STREAM, fault: Fault::Exists, .. } => TransferError::Conflicts(1),
        other => unwelcome(other, &Found::default()),
    }
}

/// Sends chunks until they end; returns their hash.
async fn pump(
    connection: &Connection,
    mut chunks: mpsc::Receiver<io::Result<Bytes>>,
    progress: &mut Progress,
) -> Result<blake3::Hash, TransferError> {
    let mut stream = connection.open_uni().await.map_err(lost)?;
    // Behind the control stream.
    let _ = stream.set_priority(-1);
    let mut hasher = blake3::Hasher::new();
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let chunk = tokio::select! {
            chunk = chunks.recv() => chunk,
            _ = tick.tick() => {
                progress.show();
                continue;
            }
        };
        let Some(chunk) = chunk else { break };
        let chunk = chunk.map_err(TransferError::Input)?;
        hasher.update(&chunk);
        progress.bytes += chunk.len() as u64;
        stream.write_chunk(chunk).await.map_err(broken)?;
    }
    stream.finish().map_err(|error| TransferError::Lost(error.to_string()))?;
    Ok(hasher.finalize())
}
