//! The receiving side: `rc3 recv`.
//!
//! Any holder of the ticket is admitted; a few transfers run at a time, one if the first complete one ends the program,
//! and others wait. A failed transfer ends neither the
//! program nor loses what arrived: incomplete files stay for the next run.

use std::{
    collections::VecDeque,
    future::pending,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    time::Duration,
};

use metrics::{counter, gauge};
use rc3_net::Endpoint;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, sleep, timeout},
};

use super::{
    BUSY, ENDED,
    asked::Asked,
    background,
    conclude::Parting,
    destination::{Destination, Policy},
    identity::Identity,
    inbound::{self, Finish},
    mapping::{Mapped, Mapping},
    meet::{Listener, Settings},
    message::Hello,
    newcomers::Newcomers,
    parting,
    paths::printable_path,
    progress::{Reporter, count},
    pulse::{Pulses, gives_way},
    random::random,
    session::{Control, FINAL_PATIENCE, Session},
    stopped_by,
    ticket::{SECRET_BYTES, Secret, Ticket},
    ticket_file::TicketFile,
};
use crate::{
    error::{Error, ErrorKind, Result},
    identity::file,
    notify,
    rendezvous::{code::Place, host::Host},
    system::Stop,
};

/// Most transfers at a time.
const SENDERS_MAX: usize = 4;
/// Most senders waiting for their turn.
const WAITING_MAX: usize = 16;
/// Time between two messages to waiting senders.
const REASSURE_EVERY: Duration = Duration::from_secs(1);
/// Time between two codes: a rendezvous that ends its rooms at once is asked no more often.
const NEXT_CODE_AFTER: Duration = Duration::from_secs(1);
/// Time limit for a waiting sender to receive a message.
const REASSURE_PATIENCE: Duration = Duration::from_millis(10);

/// Parameters of a receiver.
#[derive(Debug, Clone)]
pub struct ReceiveJob {
    /// The directory, which must exist; `None`: the first pipe goes to standard output.
    pub dir: Option<PathBuf>,
    /// The address to listen on; `None` is any, IPv4 and IPv6.
    pub bind: Option<SocketAddr>,
    /// Address in the ticket instead of this host's: a host, and a port if it differs.
    pub advertise: Option<(String, Option<u16>)>,
    /// File of the identity, made on first use; without it, every run has a new identity and secret.
    pub identity: Option<PathBuf>,
    /// File for the ticket, instead of printing it.
    pub ticket_file: Option<PathBuf>,
    /// Wait for the sender at this rendezvous, and print a code instead of the ticket: for one connection.
    pub meet: Option<Place>,
    /// Continue after the first complete transfer.
    pub keep: bool,
    /// How to handle files.
    pub policy: Policy,
    /// The transport.
    pub settings: Settings,
}

/// Prints a ticket and receives: one complete transfer, or all until interrupted.
///
/// # Errors
/// See [`Error`]. A failed transfer is reported but does not end the receiver.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn receive(job: ReceiveJob, reporter: &mut Reporter) -> Result<()> {
    let mut stop = Stop::default();
    let outcome = {
        let stopped = stopped_by();
        let mut stopped = pin!(async {
            stop = stopped.await;
            stop
        });
        if job.keep && job.meet.is_some() {
            by_codes(&job, stopped.as_mut(), reporter).await
        } else {
            announced(job.clone(), stopped.as_mut(), reporter).await
        }
    };
    if job.keep { stop.conclude(outcome) } else { outcome }
}

/// Receives by one code after the other: each has its own secret, so that it lets nobody in again. Ends when stopped, or
/// when the rendezvous has no room or cannot be reached.
async fn by_codes(
    job: &ReceiveJob,
    mut stopped: Pin<&mut impl Future<Output = Stop>>,
    reporter: &mut Reporter,
) -> Result<()> {
    loop {
        let once = ReceiveJob { keep: false, ..job.clone() };
        if let Err(error) = announced(once, stopped.as_mut(), reporter).await {
            use ErrorKind::{Busy, Connect, Interrupted, Local, Resolve};
            if let Interrupted | Local | Resolve | Connect | Busy = error.kind() {
                return Err(error);
            }
            reporter.error(&error);
        }
        tokio::select! {
            () = sleep(NEXT_CODE_AFTER) => reporter.note("waiting for the next sender, with a new code"),
            _ = stopped.as_mut() => return Err(Error::interrupted(0)),
        }
    }
}

/// Receives by one ticket or code.
async fn announced(
    job: ReceiveJob,
    mut stopped: Pin<&mut impl Future<Output = Stop>>,
    reporter: &mut Reporter,
) -> Result<()> {
    let mut receiver = Receiver::bind(job)?;
    let asks = receiver.job.meet.is_some();
    let mapping = asks.then(|| Mapping::ask(&receiver.endpoint, &receiver.job.settings.network));
    let mapped = mapping.as_ref().map(Mapping::mapped);
    let outcome = match receiver.announce(mapped, stopped.as_mut(), reporter).await {
        Ok(host) => {
            notify::ready(&status(0, 0));
            receiver.serve(stopped, host, reporter).await
        }
        Err(error) => Err(error),
    };
    let is_pipe = receiver.destination.is_none();
    let outcome = receiver.close(outcome).await;
    if let Some(mapping) = mapping {
        mapping.end().await;
    }
    if is_pipe { outcome.map_err(Error::of_pipe) } else { outcome }
}

/// A port with a ticket, and the directory behind it.
pub struct Receiver {
    job: ReceiveJob,
    destination: Option<Destination>,
    endpoint: Endpoint,
    ticket: Ticket,
    /// Removed on drop.
    written: Option<TicketFile>,
    newcomers: Newcomers<Hello>,
    /// Senders that wait for their turn.
    waiting: VecDeque<Session>,
}

impl Receiver {
    /// Opens the directory and a port, and makes a ticket.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub fn listen(job: ReceiveJob) -> Result<Self> {
        match job.meet {
            None => Self::bind(job),
            Some(_) => Err(Error::usage("only the command waits at a rendezvous", "run `rc3 recv --meet`")),
        }
    }

    fn bind(job: ReceiveJob) -> Result<Self> {
        // Check the directory before anyone gets a ticket.
        let destination = job.dir.as_deref().map(|dir| open(dir, job.policy)).transpose()?;
        let identity = identity(job.identity.as_deref())?;
        let listener = Listener::open(true, &identity, &job.settings, job.bind)?;
        let ticket = listener.ticket(job.advertise.as_ref())?;
        let written = job.ticket_file.as_deref().map(|path| TicketFile::write(path, &ticket)).transpose();
        let written = written.map_err(|error| Error::local("write the ticket", error))?;
        let (newcomers, waiting) = (listener.newcomers(), VecDeque::new());
        Ok(Self { job, destination, endpoint: listener.endpoint, ticket, written, newcomers, waiting })
    }

    /// The ticket for senders.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Receives one complete transfer, or with [`ReceiveJob::keep`] all, until `stop`. It can be called again, after
    /// `stop` too: senders that arrive between two calls wait until their own patience ends.
    ///
    /// # Errors
    /// See [`Error`]. A failed transfer is reported but does not end the call.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn receive(&mut self, stop: impl Future<Output = ()>, reporter: &mut Reporter) -> Result<()> {
        let interrupted = async {
            stop.await;
            Stop::Interrupt
        };
        self.serve(pin!(interrupted), None, reporter).await
    }

    /// Tells the user what the sender needs: the ticket, or a code, for which a room must be open.
    async fn announce(
        &self,
        mapped: Option<Mapped>,
        stop: Pin<&mut impl Future<Output = Stop>>,
        reporter: &Reporter,
    ) -> Result<Option<Host>> {
        let is_pipe = self.destination.is_none();
        let unprinted = |error| Error::local("print the ticket", error);
        if let (Some(place), Some(mapped)) = (&self.job.meet, mapped) {
            let host = tokio::select! {
                host = Host::open(&self.endpoint, place, &self.job.settings, mapped) => host?,
                _ = stop => return Err(Error::interrupted(0)),
            };
            reporter.listening("code", &host.code().to_string(), is_pipe).map_err(unprinted)?;
            return Ok(Some(host));
        }
        self.ticket.warning(self.job.bind).iter().for_each(|warning| reporter.note(warning));
        match &self.written {
            Some(file) => reporter.listening_by_file(file.path()),
            None => reporter.listening("ticket", &self.ticket.to_string(), is_pipe).map_err(unprinted)?,
        }
        Ok(None)
    }

    async fn serve(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = Stop>>,
        host: Option<Host>,
        reporter: &mut Reporter,
    ) -> Result<()> {
        let is_once = host.is_some();
        let (mut meeting, mut is_over) =
            (pin!(meeting(host, self.endpoint.clone(), self.ticket.clone())), !is_once);
        let mut tick = tokio::time::interval(REASSURE_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let most = if self.job.keep { SENDERS_MAX } else { 1 };
        let mut transfers = JoinSet::new();
        let mut pulses = Pulses::default();
        let mut state = (0, 0);
        loop {
            self.forget_absent();
            while transfers.len() < most
                && let Some(session) = self.waiting.pop_front()
            {
                pulses.add(session.channel.connection.clone());
                let (destination, mut reporter) = (self.destination.clone(), reporter.another());
                transfers.spawn(async move {
                    let outcome = inbound::run(session, destination.as_ref(), &mut reporter).await;
                    reporter.clear();
                    outcome
                });
            }
            let now = (transfers.len(), self.waiting.len());
            if std::mem::replace(&mut state, now) != now {
                show(now, reporter);
            }
            let done = tokio::select! {
                newcomer = self.newcomers.next() => {
                    self.admit(newcomer, transfers.is_empty(), reporter);
                    continue;
                }
                _ = tick.tick() => {
                    for session in &mut self.waiting {
                        let _ = timeout(REASSURE_PATIENCE, session.reassure()).await;
                    }
                    let silent = "was silent while another sender waited";
                    if !self.waiting.is_empty() && transfers.len() >= most && pulses.give_way(silent) {
                        reporter.note("a silent sender gave way to one that waits; what arrived of it is kept");
                    }
                    continue;
                }
                Some(done) = transfers.join_next() => done.map_err(background)?,
                relay = meeting.as_mut(), if !is_over => {
                    is_over = true;
                    if let Some(relay) = relay? {
                        pulses.lose(relay);
                    }
                    if transfers.is_empty() && self.waiting.is_empty() {
                        return Err(Error::gone("the sender did not come").of_code());
                    }
                    continue;
                }
                stop = stop.as_mut() => {
                    let error = self.stopped(stop);
                    // Senders should receive the reason before their connections are dropped.
                    let Parting { code, reason, .. } = parting(Some(&error), self.destination.as_ref());
                    pulses.close(code, reason);
                    return Err(error);
                }
            };
            // The next sender may already wait for a file that is still being closed.
            if transfers.is_empty() {
                let _ = timeout(FINAL_PATIENCE, idle(self.destination.as_ref())).await;
            }
            if let Some(outcome) = self.settle(done, is_once, reporter) {
                return outcome;
            }
        }
    }

    /// Forgets senders that have left, and silent ones if too many wait.
    fn forget_absent(&mut self) {
        let is_full = self.waiting.len() >= WAITING_MAX;
        self.waiting.retain(|Session { channel, .. }| {
            channel.connection.close_reason().is_none() && !(is_full && gives_way(&channel.connection))
        });
    }

    /// How a receiver ends that its user, or its system, stops.
    fn stopped(&self, stop: Stop) -> Error {
        match stop {
            Stop::Terminate if self.job.keep && self.job.identity.is_some() => Error::terminated(),
            _ => Error::interrupted(0),
        }
    }

    /// Takes a sender that has shown the secret, or says that one was turned away.
    fn admit(&mut self, newcomer: Result<(Control, Hello), String>, is_idle: bool, reporter: &Reporter) {
        match newcomer {
            Ok((control, _)) if self.waiting.len() < WAITING_MAX => {
                let asked = if self.destination.is_some() { Asked::Anything } else { Asked::Pipe };
                self.waiting.push_back(Session::new(control, self.job.settings.patience, asked));
            }
            Ok((control, _)) => control.connection.close(BUSY, b"too many senders are waiting"),
            Err(turned_away) if is_idle => reporter.note(&turned_away),
            Err(_) => {}
        }
    }

    /// What a transfer that has ended means for this program: its outcome, if it ends too. A code is good for one.
    fn settle(&self, done: Result<Finish>, is_once: bool, reporter: &mut Reporter) -> Option<Result<()>> {
        let outcome = match &done {
            Ok(Finish::Complete(Ok(()))) => "complete",
            Ok(Finish::DryRun) => "dry_run",
            Ok(Finish::Complete(Err(_))) => "incomplete",
            Err(_) => "failed",
        };
        counter!("rc3_transfers_ended", "outcome" => outcome).increment(1);
        match done {
            Ok(Finish::Complete(result)) if !self.job.keep => return Some(result),
            Ok(Finish::Complete(result)) => {
                if let Err(error) = result {
                    reporter.error(&error);
                }
                reporter.note("waiting for the next sender, with the same ticket");
            }
            Ok(Finish::DryRun) if is_once => {
                reporter
                    .note("the sender only asked what would happen; run this command again for a new code");
                return Some(Ok(()));
            }
            Ok(Finish::DryRun) => {}
            Err(error) if is_once => return Some(Err(error.of_code())),
            Err(error) => {
                reporter.error(&error);
                reporter.note("still waiting, the same ticket is good for another try");
            }
        }
        None
    }

    /// Closes the port and all connections; senders learn the reason from `outcome`. Returns `outcome`, with the number
    /// of incomplete files.
    ///
    /// # Errors
    /// That of `outcome`.
    pub async fn close(self, outcome: Result<()>) -> Result<()> {
        if outcome.is_ok() {
            self.waiting.iter().for_each(|waiting| waiting.channel.connection.close(ENDED, b"is done"));
        }
        wind_up(&self.endpoint, self.destination.as_ref(), outcome).await
    }
}

/// The last steps of either side: signals the outcome to the peers, and records what is incomplete.
pub(crate) async fn wind_up(
    endpoint: &Endpoint,
    destination: Option<&Destination>,
    outcome: Result<()>,
) -> Result<()> {
    let parting = parting(outcome.as_ref().err(), destination);
    parting.close(endpoint);
    // Record files that are still being written first.
    let _ = timeout(FINAL_PATIENCE, idle(destination)).await;
    destination.into_iter().for_each(Destination::close);
    parting.leave(endpoint).await;
    match outcome {
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            Err(Error::interrupted(destination.map_or(0, Destination::kept)))
        }
        outcome => outcome,
    }
}

/// Time for a sender that has left the rendezvous to be here.
const GUEST_PATIENCE: Duration = Duration::from_secs(10);

/// Meets the sender at a rendezvous, if there is one. Ends a while after that is over, with the address of the relay that
/// is no more.
async fn meeting(host: Option<Host>, endpoint: Endpoint, ticket: Ticket) -> Result<Option<SocketAddr>> {
    let Some(host) = host else { return pending().await };
    let relay = host.run(&endpoint, (ticket.fingerprint(), ticket.secret())).await?;
    sleep(GUEST_PATIENCE).await;
    Ok(relay)
}

/// One line for the manager of a service.
fn status(running: usize, waiting: usize) -> String {
    match running {
        0 => "waiting for a sender".to_owned(),
        _ => format!("{} running, {} waiting", count(running, "transfer"), count(waiting, "sender")),
    }
}

/// The certificate and the ticket's secret. Those of a file are the same in every run.
fn identity(file: Option<&Path>) -> Result<(Identity, Secret)> {
    match file {
        Some(path) => {
            let identity = file::open(path)?;
            let secret = file::ticket_secret(&identity);
            Ok((identity, secret))
        }
        None => new_identity(),
    }
}

/// A certificate and a secret for this run.
pub(crate) fn new_identity() -> Result<(Identity, Secret)> {
    Ok((Identity::generate()?, Secret(random::<SECRET_BYTES>()?)))
}

/// Shows how many transfers run, and how many senders wait.
fn show((running, waiting): (usize, usize), reporter: &mut Reporter) {
    reporter.status(&status(running, waiting));
    gauge!("rc3_transfers_running").set(running as f64);
    gauge!("rc3_senders_waiting").set(waiting as f64);
}

/// Waits until no file is in use: tasks of a failed transfer close their files themselves.
async fn idle(destination: Option<&Destination>) {
    while destination.is_some_and(|destination| !destination.is_idle()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn open(dir: &Path, policy: Policy) -> Result<Destination> {
    let failed = |error| Error::local(format!("receive into {}", printable_path(dir)), error);
    Destination::open(dir, policy, random()?).map_err(failed)
}
