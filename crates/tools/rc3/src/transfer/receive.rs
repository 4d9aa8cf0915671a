//! The receiving side: `rc3 recv`.
//!
//! Any holder of the ticket is admitted; one transfer runs at a time, others wait. A failed transfer ends neither the
//! program nor loses what arrived: incomplete files stay for the next run.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rc3_net::{Congestion, Endpoint, RlpMode, ServerConfig, VarInt};
use tokio::time::{MissedTickBehavior, timeout};

use super::{
    STREAMS_MAX,
    admission::Admission,
    close_code,
    destination::{Destination, Policy},
    error::TransferError,
    identity::Identity,
    inbound::Transfer,
    interrupted,
    message::ALPN,
    network::Network,
    paths::printable_path,
    progress::Reporter,
    random::random,
    reachable::{self, invite},
    session::FINAL_PATIENCE,
    ticket::{SECRET_BYTES, Secret, Ticket},
    ticket_file::TicketFile,
    transport,
};
use crate::identity::file;

/// Bound on the memory in bytes that all senders together can use, with and without a ticket. A transfer writes its
/// bytes on arrival and needs a tenth of it.
const MEMORY_MAX: u64 = 128 << 20;

/// Time between two messages to waiting senders.
const REASSURE_EVERY: Duration = Duration::from_secs(1);

/// Parameters of a receiver.
#[derive(Debug, Clone)]
pub struct ReceiveJob {
    /// The directory; must exist.
    pub dir: PathBuf,
    /// The address to listen on; `None` is any, IPv4 and IPv6.
    pub listen: Option<SocketAddr>,
    /// Address in the ticket instead of that of the default route: a host, and a port if it differs.
    pub advertise: Option<(String, Option<u16>)>,
    /// File of the identity, made on first use; without it, every run has a new identity and secret.
    pub identity: Option<PathBuf>,
    /// File for the ticket, instead of printing it.
    pub ticket_file: Option<PathBuf>,
    /// Continue after the first complete transfer.
    pub keep: bool,
    /// How to handle files.
    pub policy: Policy,
    /// Directory for qlog files.
    pub qlog: Option<PathBuf>,
    /// Whether RLP is allowed.
    pub rlp: RlpMode,
    /// Marks and memory of paths.
    pub network: Network,
}

/// Prints a ticket and receives: one complete transfer, or all until interrupted.
///
/// # Errors
/// See [`TransferError`]. A failed transfer is reported but does not end the receiver.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn receive(job: ReceiveJob, reporter: &mut Reporter) -> Result<(), TransferError> {
    // Check the directory before the ticket is printed.
    let destination = open(&job)?;
    let (endpoint, ticket) = listen(&job)?;
    let written = ticket_file(&job, &ticket)?;
    match &written {
        Some(file) => reporter.listening_by_file(file.path()),
        None => reporter.listening(&ticket.to_string()),
    }

    let mut admission = Admission::new(endpoint.clone(), ticket.secret());
    let mut serving = Box::pin(serve(&job, &mut admission, &destination, reporter));
    let outcome = tokio::select! {
        outcome = &mut serving => outcome,
        () = interrupted() => Err(TransferError::Interrupted { kept: 0 }),
    };
    // Senders should receive the reason before their connections are dropped.
    let (code, reason) = parting(&outcome, &job.policy);
    endpoint.close(code, reason.as_bytes());
    drop(serving);
    wind_up(&endpoint, &destination, outcome).await
}

/// The last steps of a receiver after its connections are closed.
pub(super) async fn wind_up(
    endpoint: &Endpoint,
    destination: &Destination,
    outcome: Result<(), TransferError>,
) -> Result<(), TransferError> {
    // Record files that are still being written first.
    let _ = timeout(FINAL_PATIENCE, idle(destination)).await;
    destination.close();
    let _ = timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    endpoint.save_paths().await;
    match outcome {
        Err(TransferError::Interrupted { .. }) => {
            Err(TransferError::Interrupted { kept: destination.kept() })
        }
        outcome => outcome,
    }
}

/// The certificate and the ticket's secret. Those of a file are the same in every run.
fn identity(file: Option<&Path>) -> Result<(Identity, Secret), TransferError> {
    match file {
        Some(path) => {
            let identity = file::open(path)?;
            let secret = file::ticket_secret(&identity);
            Ok((identity, secret))
        }
        None => Ok((Identity::generate()?, Secret(random::<SECRET_BYTES>()?))),
    }
}

/// The endpoint of a receiver, and its ticket.
pub(super) fn listen(job: &ReceiveJob) -> Result<(Endpoint, Ticket), TransferError> {
    let (identity, secret) = identity(job.identity.as_deref())?;
    let mut config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN)?));
    config.transport_config(Arc::new(transport(
        job.rlp,
        Congestion::default(),
        job.qlog.as_deref(),
        STREAMS_MAX,
    )?));
    let endpoint = bind(&config, &job.network, job.listen)?;
    let local = |what: &str, error| TransferError::Local { what: what.to_owned(), error };
    let address = endpoint.local_addr().map_err(|error| local("find the port", error))?;
    let ticket = invite(address, job.advertise.as_ref(), identity.fingerprint(), secret)
        .map_err(|error| local("make a ticket", io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    Ok((endpoint, ticket))
}

/// The ticket's file, if the user chose one.
pub(super) fn ticket_file(job: &ReceiveJob, ticket: &Ticket) -> Result<Option<TicketFile>, TransferError> {
    let written = job.ticket_file.as_deref().map(|path| TicketFile::write(path, ticket)).transpose();
    written.map_err(|error| TransferError::Local { what: "write the ticket".to_owned(), error })
}

/// Close code and reason for a connection.
pub(super) fn parting(outcome: &Result<(), TransferError>, policy: &Policy) -> (VarInt, &'static str) {
    match (close_code(outcome), outcome) {
        ((code, _), Err(TransferError::Interrupted { .. })) if policy.discard_partial => {
            (code, "was interrupted, and deletes what is incomplete")
        }
        ((code, _), Err(TransferError::Interrupted { .. })) => {
            (code, "was interrupted, and keeps what arrived")
        }
        (closing, _) => closing,
    }
}

async fn serve(
    job: &ReceiveJob,
    admission: &mut Admission,
    destination: &Destination,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let mut tick = tokio::time::interval(REASSURE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let session = loop {
            match admission.next_session() {
                Some(session) => break session,
                None => {
                    if let Some(turned_away) = admission.next_event().await {
                        reporter.note(&turned_away);
                    }
                }
            }
        };
        let connection = session.connection.clone();
        let mut transfer = Box::pin(Transfer::run(session, destination, reporter));
        let outcome = loop {
            tokio::select! {
                outcome = &mut transfer => break outcome,
                _ = admission.next_event() => {}
                _ = tick.tick() => admission.reassure().await,
            }
        };
        // The sender should receive the reason before its connection is dropped.
        let (code, reason) = parting(&outcome, &job.policy);
        connection.close(code, reason.as_bytes());
        drop(transfer);
        // The next sender may already wait for a file that is still being closed.
        let _ = timeout(FINAL_PATIENCE, idle(destination)).await;
        match outcome {
            Ok(()) if job.keep => reporter.note("waiting for the next sender, with the same ticket"),
            Ok(()) => return Ok(()),
            Err(error) => {
                reporter.error(&error);
                reporter.note("still waiting, the same ticket is good for another try");
            }
        }
    }
}

/// Waits until no file is in use: tasks of a failed transfer close their files themselves.
async fn idle(destination: &Destination) {
    while !destination.is_idle() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn open(job: &ReceiveJob) -> Result<Destination, TransferError> {
    Destination::open(&job.dir, job.policy, random()?).map_err(|error| TransferError::Local {
        what: format!("receive into {}", printable_path(&job.dir)),
        error,
    })
}

/// A listening endpoint with bounded memory.
pub(crate) fn bind(
    config: &ServerConfig,
    network: &Network,
    address: Option<SocketAddr>,
) -> Result<Endpoint, TransferError> {
    let server = |address: SocketAddr| {
        Endpoint::bind(network.options(address.ip(), None), Some(config.clone()), address)
    };
    let endpoint = reachable::bind(address, server).map_err(|error| {
        let at = address.map_or_else(|| "any address".to_owned(), |address| address.to_string());
        TransferError::Local { what: format!("listen on {at}"), error }
    })?;
    endpoint.set_memory_max(MEMORY_MAX);
    Ok(endpoint)
}
