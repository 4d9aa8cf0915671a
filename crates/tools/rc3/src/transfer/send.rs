//! The sending side: `rc3 send`.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    pin::{Pin, pin},
    time::{Duration, Instant},
};

use rc3_core::units::Rate;
use rc3_net::{Congestion, Endpoint, RlpMode};

use super::{
    background, close_code,
    conclude::conclude,
    error::TransferError,
    interrupted,
    manifest::{Found, Selection},
    network::Network,
    outbound,
    outcome::Unkept,
    progress::Reporter,
    ticket::Ticket,
};

/// Default time without progress after which the transfer fails.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long to retry at a busy receiver.
const BUSY_PATIENCE: Duration = Duration::from_secs(120);
/// First pause between two tries; it doubles up to the longest.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
const BUSY_PAUSE_MAX: Duration = Duration::from_secs(8);

/// Parameters of a sender.
#[derive(Debug, Clone)]
pub struct SendJob {
    /// Files and directories.
    pub paths: Vec<PathBuf>,
    /// The receiver's ticket.
    pub ticket: Ticket,
    /// What to send of directories.
    pub selection: Selection,
    /// Only list what would happen to each file.
    pub dry_run: bool,
    /// Mean rate at which to read files, at most.
    pub rate_limit: Option<Rate>,
    /// Whether RLP is allowed.
    pub rlp: RlpMode,
    /// Congestion control at normal priority.
    pub congestion: Congestion,
    /// The longest IP packet to try; `None` for the library's default.
    pub mtu: Option<u16>,
    /// Marks and memory of paths.
    pub network: Network,
    /// Directory for qlog files.
    pub qlog: Option<PathBuf>,
    /// Time after which a silent receiver counts as gone.
    pub idle_timeout: Duration,
    /// Time without bytes or messages after which the transfer fails.
    pub patience: Duration,
}

/// Sends all files, until they are in place at the receiver or the user interrupts.
///
/// # Errors
/// See [`TransferError`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn send(job: SendJob, reporter: &mut Reporter) -> Result<(), TransferError> {
    send_until(interrupted(), job, reporter).await
}

/// As [`send`], but `stop` interrupts it instead of the user's signals, so that a program keeps its own handlers.
///
/// # Errors
/// See [`TransferError`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn send_until(
    stop: impl Future<Output = ()>,
    job: SendJob,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let mut stop = pin!(stop);
    let (paths, selection) = (job.paths.clone(), job.selection.clone());
    let scan = tokio::task::spawn_blocking(move || Found::scan(&paths, &selection));
    let found = or_stop(stop.as_mut(), async { Ok(scan.await.map_err(background)??) }).await?;
    found.left_out.iter().for_each(|left_out| reporter.left_out(left_out));
    if found.entries.is_empty() {
        return Err(TransferError::Nothing);
    }
    let unkept = send_found(stop, &job, &found, reporter).await?;
    unkept.report(reporter);
    unkept.result(found.left_out.len())
}

async fn send_found(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    job: &SendJob,
    found: &Found,
    reporter: &mut Reporter,
) -> Result<Unkept, TransferError> {
    let address = or_stop(stop.as_mut(), resolve(&job.ticket)).await?;
    let endpoint = open(&job.network, address)?;
    let work = persist(&endpoint, address, job, found, reporter);
    let stopped = async {
        stop.await;
        TransferError::Interrupted { kept: 0 }
    };
    conclude(&endpoint, work, stopped, close_code).await
}

/// The outcome of `work`, or that `stop` came first.
async fn or_stop<T>(
    stop: Pin<&mut impl Future<Output = ()>>,
    work: impl Future<Output = Result<T, TransferError>>,
) -> Result<T, TransferError> {
    tokio::select! {
        outcome = work => outcome,
        () = stop => Err(TransferError::Interrupted { kept: 0 }),
    }
}

/// An endpoint for connections to `address`.
pub(crate) fn open(network: &Network, address: SocketAddr) -> Result<Endpoint, TransferError> {
    let failed = |error| TransferError::Local { what: "open a UDP socket".to_owned(), error };
    network.client(address).map_err(failed)
}

/// Retries for a while if the receiver has no free slot.
async fn persist(
    endpoint: &Endpoint,
    address: SocketAddr,
    job: &SendJob,
    found: &Found,
    reporter: &mut Reporter,
) -> Result<Unkept, TransferError> {
    let (began, mut pause) = (Instant::now(), BUSY_PAUSE);
    loop {
        match outbound::converse(endpoint, address, job, found, reporter).await {
            Err(TransferError::Busy) if began.elapsed() + pause < BUSY_PATIENCE => {
                reporter.retrying(pause);
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(BUSY_PAUSE_MAX);
            }
            outcome => return outcome,
        }
    }
}

pub(crate) async fn resolve(ticket: &Ticket) -> Result<SocketAddr, TransferError> {
    let failed = |error| TransferError::Resolve { host: ticket.host().to_owned(), error };
    let mut addresses = tokio::net::lookup_host((ticket.host(), ticket.port())).await.map_err(failed)?;
    addresses.next().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}
