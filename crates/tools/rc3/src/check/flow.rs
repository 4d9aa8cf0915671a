//! One flow, at its sender and at its receiver. Both are bounded in bytes and time, whatever the other side does.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_net::{
    Connection,
    file::{RecvFileError, SendFileError},
};
use rc3_text::units::about_time;
use tokio::time::{interval, sleep, timeout};

use super::{
    DONE,
    message::ReceiverCount,
    pattern::{BulkPattern, Counter},
    plan::Amount,
};
use crate::{
    error::{Error, ErrorKind, Result},
    transfer::{ended, moved::Moved},
};

/// Interval of looking for progress.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Sends until all bytes have arrived, or until the receiver stops a flow that has a time.
pub(crate) async fn send(connection: &Connection, amount: Amount, patience: Duration) -> Result<()> {
    let mut stream = soon(patience, connection.open_uni()).await??;
    let sending = async {
        let lost = |error: &dyn std::fmt::Display| ended(connection, Error::lost(error));
        let stopped = match stream.send_file(BulkPattern, amount.bytes_max()).await {
            Ok(()) => stream.stopped().await.map_err(|error| lost(&error))?,
            Err(SendFileError::Stopped(code)) => Some(code),
            Err(error) => return Err(lost(&error)),
        };
        match (amount, stopped) {
            (Amount::Bytes(_), None) | (Amount::Seconds(_), Some(DONE)) => Ok(()),
            _ => Err(Error::protocol("a flow that ended at the wrong time")),
        }
    };
    watched(sending, amount, patience, || delivered(connection)).await
}

/// Receives the agreed bytes, or for the agreed time.
pub(crate) async fn receive(
    connection: &Connection,
    amount: Amount,
    patience: Duration,
) -> Result<ReceiverCount> {
    let mut stream = soon(patience, connection.accept_uni()).await??;
    let (began, counter) = (Instant::now(), Arc::new(Counter::default()));
    let whole = async {
        let received = stream.recv_file(Arc::clone(&counter), amount.bytes_max()).await;
        received.map_err(|error| unread(connection, &error))
    };
    let whole = watched(whole, amount, patience, || counter.bytes());
    let ended = match amount {
        Amount::Bytes(_) => Some(whole.await?),
        Amount::Seconds(seconds) => {
            timeout(Duration::from_secs(seconds.into()), whole).await.ok().transpose()?
        }
    };
    let arrived = ReceiverCount { bytes: counter.bytes(), seconds: began.elapsed().as_secs_f64() };
    match (amount, ended) {
        (Amount::Bytes(bytes), Some(received)) if bytes == received => {}
        // The connection may end at the same moment.
        (Amount::Seconds(_), None) => drop(stream.stop(DONE)),
        _ => return Err(Error::protocol("fewer bytes than agreed")),
    }
    Ok(arrived)
}

/// Approximate bytes that arrived: for the primary, the bytes passed to it.
fn delivered(connection: &Connection) -> u64 {
    let stats = connection.stats();
    let rlp: u64 = stats.sent.levels.iter().map(|level| level.delivered_bytes).sum();
    rlp + stats.sent.primary_bytes.saturating_sub(stats.in_flight)
}

/// The result, if it comes soon.
pub(super) async fn soon<T>(patience: Duration, work: impl Future<Output = T>) -> Result<T> {
    timeout(patience, work).await.map_err(|_| Error::stalled(patience))
}

/// Work that may neither stand still for `patience` nor exceed the time of the flow.
async fn watched<T>(
    work: impl Future<Output = Result<T>>,
    amount: Amount,
    patience: Duration,
    bytes: impl Fn() -> u64,
) -> Result<T> {
    let limit = amount.time_max(patience);
    let (mut work, mut over) = (pin!(work), pin!(sleep(limit)));
    let (mut moved, mut look) = (Moved::new(patience), interval(LOOK_EVERY));
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = &mut over => {
                let message = format!("a flow took longer than {}", about_time(limit));
                return Err(Error::new(ErrorKind::Other, message, "choose smaller --sizes for this path"));
            }
            _ = look.tick() => moved.check(bytes())?,
        }
    }
}

fn unread(connection: &Connection, error: &RecvFileError) -> Error {
    match error {
        RecvFileError::Write { .. } => {
            let hint = "this is a bug: please report it";
            Error::new(ErrorKind::NotVerified, "a flow arrived damaged", hint)
        }
        RecvFileError::TooLong => Error::protocol("more bytes than agreed"),
        error => ended(connection, Error::lost(error)),
    }
}
