//! The listener: serves one bench at a time, to holders of the ticket, within the bounds of its plan.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_cli::output;
use rc3_net::{Connection, Endpoint, SendStream, ServerConfig};
use rc3_text::units::about_time;
use tokio::time::timeout;

use super::{
    ALPN,
    error::BenchError,
    flow::{self, soon},
    message::{Reply, Request},
    plan::{Direction, Flow, Plan},
    visitor::{Visitor, Visitors},
};
use crate::{
    figures::PathFigures,
    transfer::{
        FAILED,
        error::TransferError,
        identity::Identity,
        interrupted,
        meet::{self, Settings},
        message,
        network::Network,
        newcomers::Newcomers,
        paths::printable_path,
        progress::{count, line},
        random::random,
        reachable,
        ticket::{Fingerprint, SECRET_BYTES, Secret, Ticket},
        ticket_file::TicketFile,
    },
};

/// Default time without bytes or messages after which a bench ends.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Parameters of a listener.
#[derive(Debug, Clone, Default)]
pub struct ListenJob {
    /// The address to listen on; `None` is any, IPv4 and IPv6.
    pub address: Option<SocketAddr>,
    /// Address in the ticket instead of that of the default route: a host, and a port if it differs.
    pub advertise: Option<(String, Option<u16>)>,
    /// File for the ticket, instead of printing it.
    pub ticket_file: Option<PathBuf>,
    /// Marks. Paths are remembered only while the listener runs.
    pub network: Network,
}

/// A listener.
pub struct Listener {
    endpoint: Endpoint,
    fingerprint: Fingerprint,
    secret: Secret,
    patience: Duration,
}

/// Prints a ticket and serves until interrupted.
///
/// # Errors
/// See [`Listener::bind`] and [`Listener::ticket`]; and when the ticket cannot be written.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn listen(job: &ListenJob) -> Result<(), BenchError> {
    let listener = Listener::bind(&job.network, job.address, PATIENCE)?;
    let ticket = listener.ticket(job.advertise.as_ref())?;
    // Removed on drop.
    let written = job.ticket_file.as_deref().map(|path| TicketFile::write(path, &ticket)).transpose();
    let local = |what: &str, error| TransferError::Local { what: what.to_owned(), error };
    let written = written.map_err(|error| local("write the ticket", error))?;
    match &written {
        Some(file) => {
            let path = printable_path(file.path());
            note(&format!("the ticket is in {path}; on the other machine: rc3 bench --ticket-file {path}"));
        }
        None => {
            note("on the other machine: rc3 bench -, then paste this ticket:");
            output::print(&format!("{ticket}\n")).map_err(|error| local("print the ticket", error))?;
        }
    }
    let mut serving = Box::pin(listener.serve(note));
    tokio::select! {
        () = &mut serving => {}
        () = interrupted() => {}
    }
    // Visitors should receive the reason before their connections are dropped.
    listener.endpoint.close(FAILED, b"was interrupted");
    drop(serving);
    let _ = timeout(Duration::from_secs(1), listener.endpoint.wait_idle()).await;
    Err(BenchError::Interrupted)
}

fn note(text: &str) {
    line(io::stderr(), text);
}

impl Listener {
    /// Opens the socket. A bench ends after `patience` without bytes or messages.
    ///
    /// # Errors
    /// When the address is taken or not local, or the system provides no random numbers.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub fn bind(
        network: &Network,
        address: Option<SocketAddr>,
        patience: Duration,
    ) -> Result<Self, BenchError> {
        let identity = Identity::generate()?;
        let mut config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN)?));
        config.transport_config(Arc::new(Settings::default().transport(1, 1)?));
        // A visitor may make the listener forget, so it must not use the memory of other commands.
        let network = Network { path_memory: None, ..network.clone() };
        let endpoint = meet::bind(&config, &network, address)?;
        let secret = Secret(random::<SECRET_BYTES>()?);
        Ok(Self { endpoint, fingerprint: identity.fingerprint(), secret, patience })
    }

    /// The ticket for visitors.
    ///
    /// # Errors
    /// When the advertised host is not a name or address.
    pub fn ticket(&self, advertise: Option<&(String, Option<u16>)>) -> Result<Ticket, BenchError> {
        let failed = |error| TransferError::Local { what: "make a ticket".to_owned(), error };
        let bound = self.endpoint.local_addr().map_err(failed)?;
        reachable::invite(bound, advertise, self.fingerprint, self.secret)
            .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)).into())
    }

    /// Serves for ever; `note` gets lines for the user.
    pub async fn serve(&self, mut note: impl FnMut(&str)) {
        let mut newcomers = Newcomers::new(self.endpoint.clone(), Visitors { secret: self.secret });
        loop {
            match newcomers.next().await {
                Ok(Visitor { request: Request::Bench(plan), connection, control, _requests }) => {
                    let remote = connection.remote_address();
                    note(&format!("{remote}: {}", count(plan.flows().count(), "flow")));
                    let began = Instant::now();
                    let outcome = self.host(&plan, &connection, control, &mut newcomers).await;
                    match outcome {
                        Ok(()) => note(&format!("{remote}: done in {}", about_time(began.elapsed()))),
                        Err(error) => {
                            let reason = message::reason(format!("failed: {error}"));
                            connection.close(FAILED, reason.as_bytes());
                            note(&format!("{remote}: {error}"));
                        }
                    }
                }
                Ok(visitor) => visitor.refuse(),
                Err(line) => note(&line),
            }
        }
    }

    /// Serves the flows of a plan, in order, each once.
    async fn host(
        &self,
        plan: &Plan,
        visitor: &Connection,
        mut control: SendStream,
        newcomers: &mut Newcomers<Visitors>,
    ) -> Result<(), BenchError> {
        let session = u64::from_be_bytes(random()?);
        say(visitor, &mut control, &Reply::Accepted { session }, self.patience).await?;
        // The reply of a flow may still be on its way until the next flow arrives.
        let mut last: Option<Visitor> = None;
        for (nth, flow) in (0..).zip(plan.flows()) {
            let due = Request::Flow { session, nth };
            let one = async {
                let mut next = pin!(next(newcomers, &due));
                tokio::select! {
                    biased;
                    () = self.forget(last.as_ref()), if plan.forget => next.await,
                    visitor = &mut next => visitor,
                }
            };
            let one = soon(self.patience, while_open(visitor, one)).await??;
            let connected = last.insert(one);
            let part = self.take_part(flow, connected);
            let alone = async {
                tokio::select! {
                    done = part => done,
                    () = refuse_all(newcomers) => Ok(()),
                }
            };
            while_open(visitor, alone).await??;
        }
        // The visitor ends it.
        soon(self.patience, visitor.closed()).await?;
        Ok(())
    }

    /// Forgets paths now, and when the last flow has ended: its connection learns until then.
    async fn forget(&self, last: Option<&Visitor>) {
        self.endpoint.forget_verdicts();
        if let Some(last) = last {
            last.connection.closed().await;
            self.endpoint.forget_verdicts();
        }
    }

    /// One flow.
    async fn take_part(&self, flow: Flow, visitor: &mut Visitor) -> Result<(), BenchError> {
        let Visitor { connection, control, .. } = visitor;
        let amount = flow.kind.amount;
        let reply = match flow.kind.direction {
            Direction::There => Reply::Arrived(flow::receive(connection, amount, self.patience).await?),
            Direction::Back => {
                flow::send(connection, amount, self.patience).await?;
                Reply::Sent { path: PathFigures::of(&connection.stats(), self.endpoint.marks()) }
            }
        };
        say(connection, control, &reply, self.patience).await
    }
}

/// The flow that is due. Others are refused meanwhile.
async fn next(newcomers: &mut Newcomers<Visitors>, due: &Request) -> Visitor {
    loop {
        match newcomers.next().await {
            Ok(visitor) if visitor.request == *due => return visitor,
            Ok(visitor) => visitor.refuse(),
            // Lines about rejected connections would mix with those of the bench.
            Err(_) => {}
        }
    }
}

/// Refuses everybody, for ever.
async fn refuse_all(newcomers: &mut Newcomers<Visitors>) {
    loop {
        if let Ok(visitor) = newcomers.next().await {
            visitor.refuse();
        }
    }
}

/// The result of the work, unless the connection ends before.
async fn while_open<T>(connection: &Connection, work: impl Future<Output = T>) -> Result<T, BenchError> {
    tokio::select! {
        done = work => Ok(done),
        error = connection.closed() => Err(error.into()),
    }
}

async fn say(
    connection: &Connection,
    control: &mut SendStream,
    reply: &Reply,
    patience: Duration,
) -> Result<(), BenchError> {
    let written = soon(patience, control.write_chunk(message::encode(reply).into())).await?;
    written.map_err(|error| BenchError::of(connection, TransferError::Lost(error.to_string())))
}
