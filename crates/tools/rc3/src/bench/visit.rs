//! The visitor: sends and receives the flows of a plan, and measures them.
//!
//! Every flow has a new connection with a new TLS configuration, so that none is resumed. FCT is measured by the
//! visitor's clock: for a flow from the listener to its last byte, for a flow to the listener to its reply to the last
//! byte, less half of the smallest round trip.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_net::{ClientConfig, Connection, Endpoint, RecvStream, RlpMode, SendStream};
use tokio::time::{sleep, timeout};

use super::{
    ALPN, DONE,
    error::BenchError,
    flow::{self, soon},
    message::{Arrived, Hello, Reply, Request, VERSION},
    outcome::{Outcome, without_reply},
    plan::{Direction, Flow, Plan},
    progress::Progress,
    report::Report,
};
use crate::{
    figures::PathFigures,
    scheme::Scheme,
    transfer::{
        FAILED,
        identity::{self, SERVER_NAME},
        interrupted,
        meet::{self, Settings},
        message,
        network::Network,
        not_connected,
        ticket::Ticket,
    },
};

/// Pause after each flow in round trips, so that its last packets do not meet the next flow.
const PAUSE_ROUND_TRIPS: u32 = 2;

/// Parameters of a visitor.
#[derive(Debug, Clone)]
pub struct VisitJob {
    /// The listener's ticket.
    pub ticket: Ticket,
    /// The flows.
    pub plan: Plan,
    /// Marks and memory of paths.
    pub network: Network,
    /// Time without bytes or messages after which the bench fails.
    pub patience: Duration,
}

/// Runs the plan.
///
/// # Errors
/// See [`BenchError`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn visit(job: &VisitJob, progress: &mut Progress) -> Result<Report, BenchError> {
    let address = meet::resolve(&job.ticket).await?;
    let path_memory = job.network.path_memory.clone().filter(|_| !job.plan.forget);
    let endpoint = meet::open(&Network { path_memory, ..job.network.clone() }, address)?;
    let visit = Visit { job, endpoint: &endpoint, address };
    let mut running = Box::pin(visit.run(progress));
    let outcome = tokio::select! {
        outcome = &mut running => outcome,
        () = interrupted() => Err(BenchError::Interrupted),
    };
    let (code, reason) = match &outcome {
        Ok(_) => (DONE, "done"),
        Err(BenchError::Interrupted) => (FAILED, "was interrupted"),
        Err(_) => (FAILED, "failed"),
    };
    // The listener should receive the reason before the connections are dropped.
    endpoint.close(code, reason.as_bytes());
    drop(running);
    let _ = timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    endpoint.save_paths().await;
    outcome
}

/// A connection that has shown the ticket.
struct Met {
    connection: Connection,
    control: SendStream,
    replies: RecvStream,
}

/// A running bench.
struct Visit<'a> {
    job: &'a VisitJob,
    endpoint: &'a Endpoint,
    address: SocketAddr,
}

impl Visit<'_> {
    async fn run(&self, progress: &mut Progress) -> Result<Report, BenchError> {
        let plan = &self.job.plan;
        let mut met = self.meet(Scheme::Plain, Request::Bench(plan.clone())).await?;
        let Reply::Accepted { session } = self.reply(&mut met).await? else {
            return Err(BenchError::protocol("no answer to the plan"));
        };
        let (connection, _control) = (met.connection, met.control);
        let mut report = Report::new(plan.clone(), self.address, connection.min_rtt());
        progress.start(&report);
        for (nth, flow) in (0..).zip(plan.flows()) {
            progress.begin(flow);
            let outcome = tokio::select! {
                outcome = self.measure(flow, Request::Flow { session, nth }, report.rtt) => outcome?,
                error = connection.closed() => return Err(error.into()),
            };
            report.rtt = report.rtt.min(connection.min_rtt()).min(outcome.rtt);
            progress.done(&outcome);
            report.outcomes.push(outcome);
        }
        connection.close(DONE, b"done");
        Ok(report)
    }

    /// One flow and the pause after it.
    async fn measure(&self, flow: Flow, request: Request, rtt: Duration) -> Result<Outcome, BenchError> {
        if self.job.plan.forget {
            self.endpoint.forget_verdicts();
        }
        let start = Instant::now();
        let mut met = self.meet(flow.kind.scheme, request).await?;
        let (fct, arrived, path) = match flow.kind.direction {
            Direction::There => self.there(flow, &mut met, start, rtt).await?,
            Direction::Back => self.back(flow, &mut met, start).await?,
        };
        met.connection.close(DONE, b"done");
        sleep(PAUSE_ROUND_TRIPS * met.connection.rtt()).await;
        Ok(Outcome { flow, fct, arrived, path, rtt: met.connection.min_rtt(), took: start.elapsed() })
    }

    async fn there(
        &self,
        flow: Flow,
        met: &mut Met,
        start: Instant,
        rtt: Duration,
    ) -> Result<(Duration, Arrived, PathFigures), BenchError> {
        let connection = met.connection.clone();
        let sending = flow::send(&connection, flow.kind.amount, self.job.patience);
        let replying = async {
            // Sending watches the progress.
            let reply = read(met).await?;
            Ok((reply, start.elapsed()))
        };
        let ((), (reply, until_reply)) = tokio::try_join!(sending, replying)?;
        let Reply::Arrived(arrived) = reply else { return Err(BenchError::protocol("no report of a flow")) };
        let path = PathFigures::of(&connection.stats(), self.endpoint.marks());
        Ok((without_reply(until_reply, rtt.min(connection.min_rtt())), arrived, path))
    }

    async fn back(
        &self,
        flow: Flow,
        met: &mut Met,
        start: Instant,
    ) -> Result<(Duration, Arrived, PathFigures), BenchError> {
        let arrived = flow::receive(&met.connection, flow.kind.amount, self.job.patience).await?;
        let fct = start.elapsed();
        let Reply::Sent { path } = self.reply(met).await? else {
            return Err(BenchError::protocol("no report of a flow"));
        };
        Ok((fct, arrived, path))
    }

    /// A new connection, with its request.
    async fn meet(&self, scheme: Scheme, request: Request) -> Result<Met, BenchError> {
        let mode = match scheme {
            Scheme::Plain => RlpMode::Off,
            Scheme::Rc3 => RlpMode::Guard,
        };
        let settings = Settings { rlp: mode, ..Settings::default() };
        let mut config = ClientConfig::new(Arc::new(identity::client(self.job.ticket.fingerprint(), ALPN)?));
        config.transport_config(Arc::new(settings.transport(1, 1)?));
        let connecting = self
            .endpoint
            .connect_with(config, self.address, SERVER_NAME)
            .map_err(|error| BenchError::Connect { address: self.address, reason: error.to_string() })?;
        let connection = connecting.await.map_err(|error| not_connected(self.address, error))?;
        let (mut control, replies) = connection.open_bi().await?;
        let hello = Hello { version: VERSION, secret: self.job.ticket.secret().0, request };
        let written = control.write_chunk(message::encode(&hello).into()).await;
        written.map_err(|error| BenchError::of(&connection, BenchError::Lost(error.to_string())))?;
        Ok(Met { connection, control, replies })
    }

    async fn reply(&self, met: &mut Met) -> Result<Reply, BenchError> {
        soon(self.job.patience, read(met)).await?
    }
}

async fn read(met: &mut Met) -> Result<Reply, BenchError> {
    message::read(&mut met.replies).await.map_err(|error| BenchError::of(&met.connection, error))
}
