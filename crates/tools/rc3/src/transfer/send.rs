//! The sending side: `rc3 send`.

use std::{
    future::pending,
    path::PathBuf,
    pin::{Pin, pin},
    time::Duration,
};

use rc3_core::units::Rate;
use tokio::time::sleep;

use super::{
    addresses::resolve,
    background,
    conclude::conclude,
    direct::Met,
    manifest::{Found, Selection},
    meet::{Settings, join, open},
    outage::Tries,
    outbound::{Input, Outbound},
    parting,
    progress::{Event, Reporter},
    ticket::Ticket,
};
use crate::{
    error::{Error, Result},
    rendezvous::{
        code::{Code, Place},
        guest::{Arrived, arrive},
    },
};

/// Parameters of a sender.
#[derive(Debug, Clone)]
pub struct SendJob {
    /// What to send.
    pub content: Content,
    /// What to send of directories.
    pub selection: Selection,
    /// How to find the receiver.
    pub invitation: Invitation,
    /// Only list what would happen to each file.
    pub dry_run: bool,
    /// Mean rate at which to read files, at most.
    pub rate_limit: Option<Rate>,
    /// The transport.
    pub settings: Settings,
}

/// How to find a receiver.
#[derive(Debug, Clone)]
pub enum Invitation {
    /// It can be reached.
    Ticket(Ticket),
    /// It waits at this rendezvous.
    Code(Code, Place),
}

impl From<Ticket> for Invitation {
    fn from(ticket: Ticket) -> Self {
        Self::Ticket(ticket)
    }
}

/// What to send.
#[derive(Debug, Clone)]
pub enum Content {
    /// Files and directories.
    Paths(Vec<PathBuf>),
    /// Standard input, with the name of the file that a receiver with a directory writes.
    Input(Option<String>),
}

/// Time for the end of a transfer after that of its relay.
const RELAY_LINGERS: Duration = Duration::from_secs(1);

/// Sends everything, until it is in place at the receiver or `stop` interrupts it.
///
/// # Errors
/// See [`Error`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn send_until(stop: impl Future<Output = ()>, job: SendJob, reporter: &mut Reporter) -> Result<()> {
    let mut stop = pin!(stop);
    let found = match job.content.clone() {
        Content::Paths(paths) => {
            let selection = job.selection.clone();
            let scan = tokio::task::spawn_blocking(move || Found::scan(&paths, &selection));
            or_stop(stop.as_mut(), async { scan.await.map_err(background)? }).await?
        }
        Content::Input(name) => {
            let input = Box::new(std::io::stdin());
            return send_pipe(stop, &job, name.as_deref(), input, reporter).await;
        }
    };
    found.left_out.iter().for_each(|left_out| reporter.report(&Event::from(left_out)));
    found.dropped.report(reporter);
    if found.entries.is_empty() {
        return Err(Error::nothing());
    }
    send_found(stop, &job, &found, None, reporter).await
}

/// Sends `input` to its end, whatever the job's content is.
pub(super) async fn send_pipe(
    stop: Pin<&mut impl Future<Output = ()>>,
    job: &SendJob,
    name: Option<&str>,
    input: Input,
    reporter: &mut Reporter,
) -> Result<()> {
    let sent = send_found(stop, job, &Found::pipe(name), Some(input), reporter).await;
    sent.map_err(Error::of_pipe)
}

async fn send_found(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    job: &SendJob,
    found: &Found,
    input: Option<Input>,
    reporter: &mut Reporter,
) -> Result<()> {
    let ticket = match &job.invitation {
        Invitation::Ticket(ticket) => ticket,
        Invitation::Code(code, place) => {
            return send_by_code(stop, job, (code, place), found, input, reporter).await;
        }
    };
    let addresses = or_stop(stop.as_mut(), resolve(ticket)).await?;
    let trust = (ticket.fingerprint(), ticket.secret());
    let endpoint = open(&job.settings.network, &addresses)?;
    let work = async {
        let (mut tries, mut input) = (Tries::new(job.settings.network.give_up_after), input);
        loop {
            let once = async {
                let control = join(true, &endpoint, &addresses, trust, &job.settings).await?;
                let patience = job.settings.patience;
                let outbound = Outbound::new(control, patience, found, job.dry_run, job.rate_limit);
                outbound.run(&mut input, endpoint.marks(), reporter).await
            };
            let Err(error) = once.await else { return Ok(()) };
            // What the receiver had of a pipe is gone.
            if found.is_pipe() && input.is_none() {
                return Err(error);
            }
            tries.wait_after(error, reporter).await?;
        }
    };
    let stopped = async {
        stop.await;
        Error::interrupted(0)
    };
    conclude(&endpoint, work, stopped, |error| parting(error, None)).await
}

/// Sends over the one connection that a code allows.
async fn send_by_code(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    job: &SendJob,
    (code, place): (&Code, &Place),
    found: &Found,
    mut input: Option<Input>,
    reporter: &mut Reporter,
) -> Result<()> {
    let Arrived { met, mapping, relayed } =
        or_stop(stop.as_mut(), arrive(code, place, &job.settings)).await?;
    let Met { endpoint, control } = met;
    if relayed.is_some() {
        reporter.note(
            "UDP reaches the receiver by no direct way: the data goes through the relay of the rendezvous",
        );
    }
    let relay_lost = async {
        match relayed {
            Some(relayed) => {
                let error = relayed.keep().await;
                // The receiver leaves the rendezvous too when it is done, and its word may still be on its way.
                sleep(RELAY_LINGERS).await;
                Error::lost(format!("the relay: {error}"))
            }
            None => pending().await,
        }
    };
    let work = async {
        let patience = job.settings.patience;
        let outbound = Outbound::new(control, patience, found, job.dry_run, job.rate_limit);
        let sent = tokio::select! {
            sent = outbound.run(&mut input, endpoint.marks(), reporter) => sent,
            error = relay_lost => Err(error),
        };
        sent.map_err(Error::of_code)
    };
    let stopped = async {
        stop.await;
        Error::interrupted(0)
    };
    let outcome = conclude(&endpoint, work, stopped, |error| parting(error, None)).await;
    mapping.end().await;
    outcome
}

/// The outcome of `work`, or that `stop` came first. Work that fails at once does not await `stop`, which may have come before.
pub(crate) async fn or_stop<T>(
    stop: Pin<&mut impl Future<Output = ()>>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = stop => Err(Error::interrupted(0)),
    }
}
