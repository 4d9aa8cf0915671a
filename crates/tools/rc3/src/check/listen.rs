//! The listener: serves one visitor at a time, if it holds the ticket, within the bounds of its plan.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_net::{Connection, Endpoint, ServerConfig};
use rc3_text::units::about_time;
use tokio::time::{sleep, timeout};

use super::{
    ALPN, answer,
    flow::{self, soon},
    message::{Hello, Reply, Request},
    plan::{CheckPlan, FlowDirection, PlannedFlow},
    probe::ProbeKey,
    visitor::{Visitor, newcomers},
};
use crate::{
    cli::{high::network, low::CheckArgs, ticket::publish},
    error::{Error, Result},
    figures::PathFigures,
    log, notify,
    system::Stop,
    transfer::{
        FAILED,
        identity::Identity,
        meet::{self, MEMORY_MAX, Settings},
        message,
        network::Network,
        newcomers::Newcomers,
        progress::count,
        random::random,
        reachable,
        receive::new_identity,
        stopped_by,
        ticket::{Secret, Ticket},
    },
};

/// Default time without bytes or messages after which a check ends.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long a released port may take to become free.
const BIND_TRIES: u32 = 200;
const BIND_PAUSE: Duration = Duration::from_millis(10);

/// A listener.
pub struct CheckListener {
    endpoint: Endpoint,
    config: ServerConfig,
    network: Network,
    identity: Identity,
    bound: SocketAddr,
    secret: Secret,
    patience: Duration,
}

/// Prints a ticket and serves until interrupted.
///
/// # Errors
/// See [`CheckListener::bind`], [`CheckListener::ticket`] and [`CheckListener::serve`]; and when the ticket cannot be written.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn listen(args: &CheckArgs) -> Result<()> {
    let listener = CheckListener::bind(&network(args.network.clone()), args.bind, PATIENCE)?;
    let ticket = listener.ticket(args.advertise.as_ref())?;
    // Removed on drop.
    let _written = publish(&ticket, args.bind, args.ticket_file.as_deref(), "rc3 check")?;
    let mut stop = Stop::default();
    let stopped = stopped_by();
    notify::ready("waiting for a check");
    let stopped = async { stop = stopped.await };
    listener.serve(|text| log::line(text), stopped).await?;
    stop.conclude(Err(Error::interrupted(0)))
}

fn unusable(error: io::Error) -> Error {
    Error::local("use the port", error)
}

impl CheckListener {
    /// Opens the socket. A check ends after `patience` without bytes or messages.
    ///
    /// # Errors
    /// When the address is taken or not local, or the system provides no random numbers.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub fn bind(network: &Network, address: Option<SocketAddr>, patience: Duration) -> Result<Self> {
        let (identity, secret) = new_identity()?;
        let mut config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN)?));
        // A visitor may make the listener forget, so it must not use the memory of other commands.
        let network = Network { path_memory: None, ..network.clone() };
        let settings = Settings { network: network.clone(), ..Settings::default() };
        config.transport_config(Arc::new(settings.transport(1, 1)?));
        let endpoint = meet::bind(&config, &identity, &network, address, 0, MEMORY_MAX)?;
        let bound = endpoint.local_addr().map_err(unusable)?;
        Ok(Self { endpoint, config, network, identity, bound, secret, patience })
    }

    /// The ticket for visitors.
    ///
    /// # Errors
    /// When the advertised host is not a name or address.
    pub fn ticket(&self, advertise: Option<&(String, Option<u16>)>) -> Result<Ticket> {
        reachable::invite(self.bound, advertise, self.identity.fingerprint(), self.secret)
    }

    /// Serves until `stop`; `note` gets lines for the user.
    ///
    /// # Errors
    /// When the port becomes unusable.
    pub async fn serve(mut self, mut note: impl FnMut(&str), stop: impl Future<Output = ()>) -> Result<()> {
        let bound = self.bound;
        let mut stop = pin!(stop);
        loop {
            let mut serving = Box::pin(self.serve_plans(&mut note));
            let asked = tokio::select! {
                asked = &mut serving => Some(asked),
                () = &mut stop => None,
            };
            // Visitors should receive the reason before their connections are dropped.
            self.endpoint.close(FAILED, if asked.is_some() { b"probes" } else { b"was interrupted" });
            drop(serving);
            let _ = timeout(Duration::from_secs(1), self.endpoint.wait_idle()).await;
            let Some(session) = asked else { return Ok(()) };
            drop(self.endpoint);
            // Firewalls already pass this port.
            let socket = again(|| answer::bind(bound)).await.map_err(unusable)?;
            let key = ProbeKey::new(self.secret, session);
            tokio::select! {
                answered = answer::answer(&socket, &key) => answered.map_err(unusable)?,
                () = &mut stop => return Ok(()),
            }
            drop(socket);
            let reopen =
                || meet::bind(&self.config, &self.identity, &self.network, Some(bound), 0, MEMORY_MAX);
            self.endpoint = again(reopen).await?;
        }
    }

    /// Serves plans until a visitor asks for probes, and returns the number of that session.
    async fn serve_plans(&self, note: &mut impl FnMut(&str)) -> u64 {
        let mut newcomers = newcomers(self.endpoint.clone(), self.secret);
        loop {
            let mut visitor = match newcomers.next().await {
                Ok((control, hello)) => Visitor { control, request: hello.request },
                Err(line) => {
                    note(&line);
                    continue;
                }
            };
            let what = match &visitor.request {
                Request::Flow { .. } => {
                    visitor.refuse();
                    continue;
                }
                Request::Probes => "probes".to_owned(),
                Request::Flows(plan) => count(plan.flows().count(), "flow"),
            };
            let (remote, began) = (visitor.control.connection.remote_address(), Instant::now());
            note(&format!("{remote}: {what}"));
            match self.host(&mut visitor, &mut newcomers).await {
                Ok(Some(session)) => return session,
                Ok(None) => note(&format!("{remote}: done in {}", about_time(began.elapsed()))),
                Err(error) => {
                    let reason = message::reason(format!("failed: {error}"));
                    visitor.control.connection.close(FAILED, reason.as_bytes());
                    note(&format!("{remote}: {error}"));
                }
            }
        }
    }

    /// Serves what a visitor asks for. Returns the number of the session if it is one of probes, which begins then.
    async fn host(&self, visitor: &mut Visitor, newcomers: &mut Newcomers<Hello>) -> Result<Option<u64>> {
        let session = u64::from_be_bytes(random()?);
        soon(self.patience, visitor.control.say(&Reply::Accepted { session })).await??;
        // Its reply may still be on its way.
        let _last = match visitor.request.clone() {
            Request::Flows(plan) => {
                self.serve_flows(&plan, session, &visitor.control.connection, newcomers).await?
            }
            _ => None,
        };
        // The visitor ends it.
        soon(self.patience, visitor.control.connection.closed()).await?;
        Ok((visitor.request == Request::Probes).then_some(session))
    }

    /// Serves the flows of a plan, in order, each once; returns the visitor of the last.
    async fn serve_flows(
        &self,
        plan: &CheckPlan,
        session: u64,
        visitor: &Connection,
        newcomers: &mut Newcomers<Hello>,
    ) -> Result<Option<Visitor>> {
        // The reply of a flow may still be on its way until the next flow arrives.
        let mut last: Option<Visitor> = None;
        for (nth, flow) in (0..).zip(plan.flows()) {
            let due = Request::Flow { session, nth };
            let one = async {
                let mut next = pin!(next(newcomers, Some(&due)));
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
                    _ = next(newcomers, None) => Ok(()),
                }
            };
            while_open(visitor, alone).await??;
        }
        Ok(last)
    }

    /// Forgets paths now, and when the last flow has ended: its connection learns until then.
    async fn forget(&self, last: Option<&Visitor>) {
        self.endpoint.forget_verdicts();
        if let Some(last) = last {
            last.control.connection.closed().await;
            self.endpoint.forget_verdicts();
        }
    }

    /// One flow.
    async fn take_part(&self, flow: PlannedFlow, visitor: &mut Visitor) -> Result<()> {
        let (connection, amount) = (&visitor.control.connection, flow.kind.amount);
        let reply = match flow.kind.direction {
            FlowDirection::There => Reply::Arrived(flow::receive(connection, amount, self.patience).await?),
            FlowDirection::Back => {
                flow::send(connection, amount, self.patience).await?;
                Reply::Sent { path: PathFigures::of(&connection.stats(), self.endpoint.marks()) }
            }
        };
        soon(self.patience, visitor.control.say(&reply)).await?
    }
}

/// The flow that is due, which never comes if none is. Others are refused meanwhile.
async fn next(newcomers: &mut Newcomers<Hello>, due: Option<&Request>) -> Visitor {
    loop {
        // Lines about rejected connections would mix with those of the plan.
        if let Ok((control, Hello { request, .. })) = newcomers.next().await {
            let visitor = Visitor { control, request };
            if Some(&visitor.request) == due {
                return visitor;
            }
            visitor.refuse();
        }
    }
}

/// The result of the work, unless the connection ends before.
async fn while_open<T>(connection: &Connection, work: impl Future<Output = T>) -> Result<T> {
    tokio::select! {
        done = work => Ok(done),
        error = connection.closed() => Err(error.into()),
    }
}

/// Opens a socket at a port that was released a moment ago.
async fn again<T, E>(open: impl Fn() -> Result<T, E>) -> Result<T, E> {
    for _ in 0..BIND_TRIES {
        if let Ok(opened) = open() {
            return Ok(opened);
        }
        sleep(BIND_PAUSE).await;
    }
    open()
}
