//! The visitor: probes the path, sends and receives the flows of a plan, and measures them.
//!
//! Every flow has a new connection with a new TLS configuration, so that none is resumed. FCT is measured by the
//! visitor's clock: for a flow from the listener to its last byte, for a flow to the listener to its reply to the last
//! byte, less half of the smallest round trip.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use rc3_net::{Endpoint, RlpMode, paths::PathMemory};
use tokio::time::sleep;

use super::{
    ALPN, DONE,
    comparison::Comparison,
    flow::{self, soon},
    message::{Hello, Reply, Request, VERSION},
    outcome::{MeasuredFlow, without_reply},
    path::{self, PathReport},
    plan::{CheckPlan, FlowDirection, PlannedFlow},
    probe::ProbeKey,
    progress::{CheckEvent, CheckProgress},
    report::CheckReport,
};
use crate::{
    error::{Error, ErrorKind, Result},
    figures::PathFigures,
    scheme::Scheme,
    transfer::{
        addresses,
        conclude::{Parting, conclude},
        identity, interrupted,
        meet::{self, Settings},
        network::Network,
        parting,
        reachable::unspecified,
        session::Control,
        ticket::Ticket,
    },
};

/// The command that listens.
const COMMAND: &str = "rc3 check --listen";
/// Pause after each flow in round trips, so that its last packets do not meet the next flow.
const PAUSE_ROUND_TRIPS: u32 = 2;

/// Parameters of a visitor.
#[derive(Debug, Clone)]
pub struct VisitJob {
    /// The listener's ticket.
    pub ticket: Ticket,
    /// Whether to probe the path.
    pub probes: bool,
    /// The flows, if any.
    pub plan: Option<CheckPlan>,
    /// Marks and memory of paths.
    pub network: Network,
    /// Time without bytes or messages after which the check fails.
    pub patience: Duration,
}

/// Probes the path, stores marks that proved useful, and runs the plan.
///
/// # Errors
/// When the listener does not answer, refuses, or breaks the rules; and when the user interrupts.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn visit(job: &VisitJob, report: &mut CheckReport, progress: &mut CheckProgress) -> Result<()> {
    let mut remotes = addresses::resolve(&job.ticket).await?;
    let forget = job.plan.as_ref().is_some_and(|plan| plan.forget);
    let path_memory = job.network.path_memory.clone().filter(|_| !forget);
    let network = Network { path_memory, ..job.network.clone() };
    if job.probes {
        let session =
            connected(job, &network, &mut remotes, async |visit| visit.ask_for_probes().await).await?;
        let remote = remotes[0];
        let key = ProbeKey::new(job.ticket.secret(), session);
        let probing = path::probe(remote, &key, |part| progress.print_part(part));
        let probed = tokio::select! {
            probed = probing => probed.map_err(|error| Error::local("probe the path", error))?.ok_or_else(no_answer)?,
            error = stopped() => return Err(error),
        };
        keep_marks(&network, &probed);
        progress.event(&CheckEvent::Path(&probed));
        report.path = Some(probed);
    }
    if let Some(plan) = &job.plan {
        let running = connected(job, &network, &mut remotes, async |visit| visit.run(plan, progress).await);
        report.comparison = Some(running.await?);
    }
    Ok(())
}

/// For `rc3 send --marks auto`, and for the flows of this check.
fn keep_marks(network: &Network, report: &PathReport) {
    if let (Some(path), Some(marks)) = (&network.path_memory, report.advice.evidence()) {
        let memory = PathMemory::open(path);
        memory.set_marks(report.remote, unspecified(report.remote), marks);
        if let Err(error) = memory.save() {
            tracing::debug!(%error, "cannot save the useful marks");
        }
    }
}

/// Does the work of a visit on an endpoint of its own, and ends it.
async fn connected<T>(
    job: &VisitJob,
    network: &Network,
    remotes: &mut Vec<SocketAddr>,
    work: impl AsyncFnOnce(&mut Visit<'_>) -> Result<T>,
) -> Result<T> {
    let endpoint = meet::open(network, remotes)?;
    let mut visit = Visit { job, endpoint: &endpoint, remotes };
    // The listener waits for the close.
    let parting = |error: Option<&Error>| Parting { is_needed: true, ..parting(error, None) };
    conclude(&endpoint, work(&mut visit), stopped(), parting).await
}

/// The error of a check that the user interrupts.
async fn stopped() -> Error {
    interrupted().await;
    Error::interrupted(0).hinted("run it again with fewer --runs or smaller --sizes if it takes too long")
}

fn no_answer() -> Error {
    let hint = "check that firewalls pass UDP to that port from every port of this host";
    Error::new(ErrorKind::Other, "the listener did not answer any probe", hint)
}

/// A running visit.
struct Visit<'a> {
    job: &'a VisitJob,
    endpoint: &'a Endpoint,
    /// The addresses to try; once one has answered, that one.
    remotes: &'a mut Vec<SocketAddr>,
}

impl Visit<'_> {
    /// Returns the number of the session.
    async fn ask_for_probes(&mut self) -> Result<u64> {
        let mut met = self.connect_with(Scheme::Plain, Request::Probes).await?;
        self.accepted(&mut met).await
    }

    async fn run(&mut self, plan: &CheckPlan, progress: &mut CheckProgress) -> Result<Comparison> {
        let mut met = self.connect_with(Scheme::Plain, Request::Flows(plan.clone())).await?;
        let session = self.accepted(&mut met).await?;
        let connection = met.connection.clone();
        let mut comparison = Comparison::new(plan.clone(), self.remotes[0], connection.min_rtt());
        progress.start(&comparison);
        for (nth, flow) in (0..).zip(plan.flows()) {
            if plan.forget {
                self.endpoint.forget_verdicts();
            }
            let outcome = tokio::select! {
                outcome = self.measure(flow, Request::Flow { session, nth }, comparison.rtt) => outcome?,
                error = connection.closed() => return Err(error.into()),
            };
            comparison.rtt = comparison.rtt.min(connection.min_rtt()).min(outcome.rtt);
            progress.done(&outcome);
            comparison.outcomes.push(outcome);
        }
        connection.close(DONE, b"done");
        Ok(comparison)
    }

    /// The number of the session that the listener accepts.
    async fn accepted(&self, met: &mut Control) -> Result<u64> {
        match self.reply(met).await? {
            Reply::Accepted { session } => Ok(session),
            _ => Err(Error::protocol("no answer to the plan")),
        }
    }

    /// One flow and the pause after it.
    async fn measure(&mut self, flow: PlannedFlow, request: Request, rtt: Duration) -> Result<MeasuredFlow> {
        let start = Instant::now();
        let mut met = self.connect_with(flow.kind.scheme, request).await?;
        let (connection, amount, patience) = (met.connection.clone(), flow.kind.amount, self.job.patience);
        let no_report = || Error::protocol("no report of a flow");
        let (fct, arrived, path) = match flow.kind.direction {
            FlowDirection::There => {
                let sending = flow::send(&connection, amount, patience);
                let replying = async {
                    // Sending watches the progress.
                    let reply = met.hear::<Reply>().await?;
                    Ok((reply, start.elapsed()))
                };
                let ((), (reply, until_reply)) = tokio::try_join!(sending, replying)?;
                let Reply::Arrived(arrived) = reply else { return Err(no_report()) };
                let path = PathFigures::of(&connection.stats(), self.endpoint.marks());
                (without_reply(until_reply, rtt.min(connection.min_rtt())), arrived, path)
            }
            FlowDirection::Back => {
                let arrived = flow::receive(&connection, amount, patience).await?;
                let fct = start.elapsed();
                let Reply::Sent { path } = self.reply(&mut met).await? else { return Err(no_report()) };
                (fct, arrived, path)
            }
        };
        connection.close(DONE, b"done");
        sleep(PAUSE_ROUND_TRIPS * connection.rtt()).await;
        Ok(MeasuredFlow { flow, fct, arrived, path, rtt: connection.min_rtt(), took: start.elapsed() })
    }

    /// A new connection, with its request.
    async fn connect_with(&mut self, scheme: Scheme, request: Request) -> Result<Control> {
        let mode = match scheme {
            Scheme::Plain => RlpMode::Off,
            Scheme::Rc3 => RlpMode::Guard,
        };
        let settings = Settings { rlp: mode, network: self.job.network.clone(), ..Settings::default() };
        let (tls, transport) =
            (identity::client(Some(self.job.ticket.fingerprint()), ALPN)?, settings.transport(1, 1)?);
        let hello = Hello { version: VERSION, secret: self.job.ticket.secret().0, request };
        let met = meet::connect(self.endpoint, self.remotes, COMMAND, tls, transport, &hello).await?;
        *self.remotes = vec![met.connection.remote_address()];
        Ok(met)
    }

    async fn reply(&self, met: &mut Control) -> Result<Reply> {
        soon(self.job.patience, met.hear()).await?
    }
}
