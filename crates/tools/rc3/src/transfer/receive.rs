//! The receiving side: `rc3 recv`.
//!
//! Any holder of the ticket is admitted; a few transfers run at a time, one if the first complete one ends the program,
//! and others wait. A failed transfer ends neither the
//! program nor loses what arrived: incomplete files stay for the next run.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use rc3_net::{Congestion, Endpoint, RlpMode, ServerConfig, VarInt};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, timeout},
};

use super::{
    STREAMS_MAX,
    admission::Admission,
    background, close_code,
    destination::{Destination, Policy},
    error::TransferError,
    identity::Identity,
    inbound::{Finish, Transfer},
    interrupted,
    message::ALPN,
    network::Network,
    paths::printable_path,
    progress::Reporter,
    pulse::{ASK_EVERY, Pulses},
    random::random,
    reachable::{self, invite},
    session::{FINAL_PATIENCE, Session},
    ticket::{SECRET_BYTES, Secret, Ticket},
    ticket_file::TicketFile,
    transport,
};
use crate::identity::file;

/// Default time that a sender has for each message before its files: the next entry of the manifest, or a requested hash.
pub const STEP_PATIENCE: Duration = Duration::from_secs(60);

/// Bound on the memory in bytes that all senders together can use, with and without a ticket, and on what they may still
/// send. A transfer writes its bytes on arrival; half of this allows it 1 Gbit/s x 400 ms in flight.
const MEMORY_MAX: u64 = 256 << 20;

/// Most transfers at a time.
const SENDERS_MAX: usize = 4;

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
    /// Time after which a silent sender counts as gone.
    pub idle_timeout: Duration,
    /// Time that a sender has for each message before its files; usually [`STEP_PATIENCE`].
    pub patience: Duration,
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
    let mut receiver = Receiver::listen(job)?;
    let announced = match &receiver.written {
        Some(file) => {
            reporter.listening_by_file(file.path());
            Ok(())
        }
        None => reporter.listening(&receiver.ticket.to_string()),
    };
    let outcome = match announced {
        Ok(()) => receiver.receive(interrupted(), reporter).await,
        Err(error) => Err(TransferError::Local { what: "print the ticket".to_owned(), error }),
    };
    receiver.close(outcome).await
}

/// A port with a ticket, and the directory behind it.
pub struct Receiver {
    job: ReceiveJob,
    destination: Destination,
    endpoint: Endpoint,
    ticket: Ticket,
    /// Removed on drop.
    written: Option<TicketFile>,
    admission: Admission,
}

impl Receiver {
    /// Opens the directory and a port, and makes a ticket.
    ///
    /// # Errors
    /// See [`TransferError`].
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub fn listen(job: ReceiveJob) -> Result<Self, TransferError> {
        // Check the directory before anyone gets a ticket.
        let destination = open(&job)?;
        let (endpoint, ticket) = listen(&job)?;
        let written = ticket_file(&job, &ticket)?;
        let admission = Admission::new(endpoint.clone(), ticket.secret());
        Ok(Self { job, destination, endpoint, ticket, written, admission })
    }

    /// The ticket for senders.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Receives one complete transfer, or with [`ReceiveJob::keep`] all, until `stop`. It can be called again, after
    /// `stop` too: senders that arrive between two calls wait until their own patience ends.
    ///
    /// # Errors
    /// See [`TransferError`]. A failed transfer is reported but does not end the call.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn receive(
        &mut self,
        stop: impl Future<Output = ()>,
        reporter: &mut Reporter,
    ) -> Result<(), TransferError> {
        serve(pin!(stop), &self.job, &mut self.admission, &self.destination, reporter).await
    }

    /// Closes the port and all connections; senders learn the reason from `outcome`. Returns `outcome`, with the number
    /// of incomplete files.
    ///
    /// # Errors
    /// That of `outcome`.
    pub async fn close(self, outcome: Result<(), TransferError>) -> Result<(), TransferError> {
        let (code, reason) = parting(outcome.as_ref().err(), &self.job.policy);
        self.endpoint.close(code, reason.as_bytes());
        wind_up(&self.endpoint, &self.destination, outcome).await
    }
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("dir", &self.job.dir).finish_non_exhaustive()
    }
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
    let (qlog, idle) = (job.qlog.as_deref(), job.idle_timeout);
    let mut transport = transport(job.rlp, Congestion::default(), qlog, STREAMS_MAX, idle)?;
    transport.keep_alive_interval(Some(ASK_EVERY.min(idle * 3 / 10)));
    config.transport_config(Arc::new(transport));
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
pub(super) fn parting(error: Option<&TransferError>, policy: &Policy) -> (VarInt, &'static str) {
    match (close_code(error), error) {
        ((code, _), Some(TransferError::Interrupted { .. })) if policy.discard_partial => {
            (code, "was interrupted, and deletes what is incomplete")
        }
        ((code, _), Some(TransferError::Interrupted { .. })) => {
            (code, "was interrupted, and keeps what arrived")
        }
        (closing, _) => closing,
    }
}

async fn serve(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    job: &ReceiveJob,
    admission: &mut Admission,
    destination: &Destination,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let mut tick = tokio::time::interval(REASSURE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let most = if job.keep { SENDERS_MAX } else { 1 };
    let mut transfers = JoinSet::new();
    let mut pulses = Pulses::default();
    loop {
        while transfers.len() < most
            && let Some(session) = admission.next_session()
        {
            pulses.add(session.connection.clone());
            let session = session.with_patience(job.patience);
            transfers.spawn(serve_one(session, destination.clone(), reporter.another(), job.policy));
        }
        let done = tokio::select! {
            turned_away = admission.next_event() => {
                if let Some(turned_away) = turned_away.filter(|_| transfers.is_empty()) {
                    reporter.note(&turned_away);
                }
                continue;
            }
            _ = tick.tick() => {
                admission.reassure().await;
                pulses.listen();
                if admission.has_waiting() && transfers.len() >= most && pulses.close_silent() {
                    reporter.note("a silent sender gave way to the one that waits; what arrived of it is kept");
                }
                continue;
            }
            Some(done) = transfers.join_next() => done.map_err(background)?,
            () = stop.as_mut() => {
                let error = TransferError::Interrupted { kept: 0 };
                // Senders should receive the reason before their connections are dropped.
                let (code, reason) = parting(Some(&error), &job.policy);
                pulses.close(code, reason);
                return Err(error);
            }
        };
        if transfers.is_empty() {
            // The next sender may already wait for a file that is still being closed.
            let _ = timeout(FINAL_PATIENCE, idle(destination)).await;
        }
        match done {
            Ok(Finish::Complete(result)) if !job.keep => return result,
            Ok(Finish::Complete(result)) => {
                if let Err(error) = result {
                    reporter.error(&error);
                }
                reporter.note("waiting for the next sender, with the same ticket");
            }
            Ok(Finish::DryRun) => {}
            Err(error) => {
                reporter.error(&error);
                reporter.note("still waiting, the same ticket is good for another try");
            }
        }
    }
}

async fn serve_one(
    session: Session,
    destination: Destination,
    mut reporter: Reporter,
    policy: Policy,
) -> Result<Finish, TransferError> {
    let connection = session.connection.clone();
    let outcome = Transfer::run(session, &destination, &mut reporter).await;
    reporter.clear();
    // The sender should receive the reason before its connection is dropped.
    let (code, reason) = parting(outcome.as_ref().err(), &policy);
    connection.close(code, reason.as_bytes());
    outcome
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
