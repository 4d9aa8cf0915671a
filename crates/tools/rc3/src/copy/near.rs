//! The near end: starts ssh, asks the far end to listen, and transfers.

use std::{
    net::SocketAddr,
    pin::{Pin, pin},
    time::Duration,
};

use rc3_core::units::Rate;
use rc3_net::Endpoint;
use tokio::time::timeout;

use super::{
    CopyJob, Direction, ViaSsh,
    error::CopyError,
    landing::Landing,
    link::Link,
    message::{Action, Carrier, Reply, Request},
    place::last_name,
    relay::Relay,
    send_job,
    ssh::Ssh,
    unmarked,
    wire::{VERSION, Wire, WireError},
};
use crate::{
    cli::high,
    transfer::{
        asked::Asked,
        destination::Destination,
        error::TransferError,
        interrupted,
        manifest::Found,
        once::{self, Settings},
        paths::printable_path,
        progress::Reporter,
        random::random,
        send::{open, resolve},
        ticket::{Fingerprint, Secret, Ticket},
    },
};

/// Time for ssh to log in and start rc3 there. People may type a password meanwhile.
const START_PATIENCE: Duration = Duration::from_secs(75);
/// Time for each further message of the far end, which sends one every few seconds until it listens.
const WORK_PATIENCE: Duration = Duration::from_secs(30);
/// Time for the far end's last message.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// What this host sends, or where it receives.
enum Local {
    Sources(Found),
    Landing(Landing, Destination),
}

/// Where the far end listens.
struct Meeting {
    ticket: Ticket,
    rename: Option<Vec<u8>>,
}

/// Copies, by UDP or through ssh, until the user interrupts.
///
/// # Errors
/// See [`CopyError`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn copy(job: CopyJob, reporter: &mut Reporter) -> Result<(), CopyError> {
    copy_until(interrupted(), job, reporter).await
}

/// As [`copy`], but `stop` interrupts it instead of the user's signals, so that a program keeps its own handlers.
///
/// # Errors
/// See [`CopyError`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn copy_until(
    stop: impl Future<Output = ()>,
    job: CopyJob,
    reporter: &mut Reporter,
) -> Result<(), CopyError> {
    let mut stop = pin!(stop);
    let mut local = local(&job)?;
    if let Local::Sources(found) = &local {
        found.left_out.iter().for_each(|left_out| reporter.left_out(left_out));
    }
    let (first, last) = job.ports;
    let udp = Carrier::Udp { first, last };
    let carrier = if job.via_ssh == ViaSsh::Always { Carrier::Ssh } else { udp };
    let skipped = match attempt(stop.as_mut(), &job, &mut local, carrier, reporter).await {
        Err(CopyError::NoUdp { .. }) if job.via_ssh == ViaSsh::Auto => {
            reporter.note("UDP does not answer; trying again through ssh");
            attempt(stop, &job, &mut local, Carrier::Ssh, reporter).await?
        }
        outcome => outcome?,
    };
    match skipped {
        0 => Ok(()),
        skipped => Err(TransferError::LeftOut(skipped).into()),
    }
}

fn local(job: &CopyJob) -> Result<Local, CopyError> {
    match &job.direction {
        Direction::Upload { sources, .. } => {
            let found = Found::scan(sources, &job.selection).map_err(TransferError::from)?;
            if found.entries.is_empty() {
                return Err(TransferError::Nothing.into());
            }
            Ok(Local::Sources(found))
        }
        Direction::Download { sources, path } => {
            let failed = |reason: &str| CopyError::Destination {
                path: printable_path(path),
                reason: reason.to_owned(),
            };
            let landing = Landing::of(path, sources.len()).ok_or_else(|| failed("not a directory"))?;
            let destination = Destination::open(&landing.dir, job.policy.into(), random()?)
                .map_err(|error| failed(&error.to_string()))?;
            Ok(Local::Landing(landing, destination))
        }
    }
}

/// One ssh session with one transfer. Returns how many entries are left out.
async fn attempt(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    job: &CopyJob,
    local: &mut Local,
    carrier: Carrier,
    reporter: &mut Reporter,
) -> Result<usize, CopyError> {
    let (mut ssh, mut wire) = Ssh::start(job)?;
    wire.send(&request(job, local, carrier)).await;
    let meeting = tokio::select! {
        meeting = meet(job, &mut wire, &mut ssh, carrier) => meeting?,
        () = stop.as_mut() => return Err(TransferError::Interrupted { kept: 0 }.into()),
    };
    if let (Local::Sources(found), Some(name)) = (&mut *local, &meeting.rename) {
        found.rename(name).map_err(|fault| answer(job, &fault.to_string()))?;
    }
    let mut link = Link::new(wire);
    let moved = transfer(stop, job, local, &meeting.ticket, carrier, &mut link, reporter).await;
    let moved = match moved {
        Ok(()) => Ok(0),
        Err(TransferError::LeftOut(skipped)) => Ok(skipped),
        Err(error) => Err(error),
    };
    let mut skipped_there = 0;
    if moved.is_ok() {
        skipped_there = timeout(END_PATIENCE, link.run()).await.ok().flatten().unwrap_or(0) as usize;
    }
    // The far end leaves when its standard input ends.
    drop(link);
    ssh.exit_code().await;
    moved.map(|skipped| skipped + skipped_there).map_err(|error| match error {
        TransferError::Connect { .. } if carrier != Carrier::Ssh => {
            CopyError::NoUdp { address: meeting.ticket.host().to_owned(), port: meeting.ticket.port() }
        }
        error => error.into(),
    })
}

fn request(job: &CopyJob, local: &Local, carrier: Carrier) -> Request {
    let action = match (&job.direction, local) {
        (Direction::Upload { path, sources }, _) => Action::Receive {
            path: path.clone(),
            sources: u32::try_from(sources.len()).unwrap_or(u32::MAX),
            policy: job.policy,
        },
        (Direction::Download { sources, .. }, local) => Action::Send {
            paths: sources.clone(),
            choice: job.choice.clone(),
            rename: match local {
                Local::Landing(landing, _) => landing.rename.clone(),
                Local::Sources(_) => None,
            },
            rate_limit: job.rate_limit.map(Rate::bits_per_second),
        },
    };
    Request { action, carrier, rlp: job.rlp, congestion: job.congestion, marks: job.marks }
}

/// Waits until the far end listens.
async fn meet(job: &CopyJob, wire: &mut Wire, ssh: &mut Ssh, carrier: Carrier) -> Result<Meeting, CopyError> {
    let heard = reply(wire, START_PATIENCE, WORK_PATIENCE).await;
    let heard =
        heard.map_err(|(step, patience)| CopyError::Silent { host: job.host.clone(), step, patience });
    let reply = match heard? {
        Ok(reply) => reply,
        Err(WireError::Ended) => return Err(ended(job, ssh.exit_code().await)),
        Err(WireError::Version(found)) => {
            let found = format!("it has {found} where this rc3 has {VERSION}");
            return Err(CopyError::Version { host: job.host.clone(), found });
        }
        Err(error) => return Err(answer(job, &error.to_string())),
    };
    match reply {
        Reply::Failed { message, hint } => Err(CopyError::there(&job.host, &message, &hint)),
        Reply::Done { .. } | Reply::Working => Err(answer(job, "done before it began")),
        Reply::Listening { address, port, fingerprint, secret, rename } => {
            let host = match (carrier, &job.address, address) {
                (Carrier::Ssh, ..) => "127.0.0.1".to_owned(),
                (_, Some(address), _) => address.clone(),
                (_, None, Some(address)) => address.to_string(),
                (_, None, None) => return Err(CopyError::NoAddress(job.host.clone())),
            };
            let ticket = Ticket::new(&host, port, Fingerprint(fingerprint), Secret(secret));
            Ok(Meeting { ticket: ticket.map_err(|error| answer(job, &error.to_string()))?, rename })
        }
    }
}

/// The far end's answer, or the step that took longer than its limit.
async fn reply(
    wire: &mut Wire,
    start: Duration,
    work: Duration,
) -> Result<Result<Reply, WireError>, (&'static str, Duration)> {
    let (mut step, mut patience) = ("start rc3", start);
    loop {
        match timeout(patience, wire.message()).await {
            Ok(Ok(Reply::Working)) => (step, patience) = ("prepare the copy", work),
            Ok(reply) => return Ok(reply),
            Err(_) => return Err((step, patience)),
        }
    }
}

/// ssh ended before the far end answered.
fn ended(job: &CopyJob, code: Option<i32>) -> CopyError {
    let (host, program) = (job.host.clone(), job.rc3_path.clone());
    match code {
        Some(255) => CopyError::Ssh(host),
        Some(126 | 127) => CopyError::NoPeer { host, program },
        // A usage error: it does not know the command.
        Some(2) => CopyError::Version { host, found: "it does not know `copy`".to_owned() },
        Some(code) => answer(job, &format!("it ended with exit code {code}")),
        None => answer(job, "it ended"),
    }
}

fn answer(job: &CopyJob, reason: &str) -> CopyError {
    CopyError::Answer { host: job.host.clone(), reason: reason.to_owned() }
}

/// The transfer itself.
async fn transfer(
    stop: Pin<&mut impl Future<Output = ()>>,
    job: &CopyJob,
    local: &Local,
    ticket: &Ticket,
    carrier: Carrier,
    link: &mut Link,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let network = if carrier == Carrier::Ssh { unmarked() } else { job.network.clone() };
    let settings =
        Settings { rlp: high::rlp(job.rlp), congestion: high::congestion(job.congestion), network };
    let (endpoint, address) = reach(ticket, &settings, carrier, link).await?;
    let (endpoint, destination) = (&endpoint, destination(local));
    let moving = async {
        match local {
            Local::Sources(found) => {
                let send = send_job(ticket.clone(), settings, job.rate_limit);
                once::send(endpoint, address, &send, found, reporter).await
            }
            Local::Landing(landing, destination) => {
                let asked = Asked::Download { names: names(job, landing), links: job.choice.links };
                once::fetch(endpoint, address, ticket, &settings, asked, destination, reporter).await
            }
        }
    };
    tokio::pin!(moving);
    let ended = || Err(TransferError::Lost("ssh or the far end ended".to_owned()));
    let outcome = tokio::select! {
        outcome = &mut moving => outcome,
        done = link.run() => match done {
            // The last packets may still be on their way.
            Some(_) => timeout(END_PATIENCE, &mut moving).await.unwrap_or_else(|_| ended()),
            None => ended(),
        },
        () = stop => Err(TransferError::Interrupted { kept: 0 }),
    };
    link.during(once::close(endpoint, destination, outcome)).await
}

fn destination(local: &Local) -> Option<&Destination> {
    match local {
        Local::Landing(_, destination) => Some(destination),
        Local::Sources(_) => None,
    }
}

/// An endpoint, and the address that reaches the far end.
async fn reach(
    ticket: &Ticket,
    settings: &Settings,
    carrier: Carrier,
    link: &mut Link,
) -> Result<(Endpoint, SocketAddr), TransferError> {
    if carrier != Carrier::Ssh {
        let address = resolve(ticket).await?;
        return Ok((open(&settings.network, address)?, address));
    }
    let failed = |error| TransferError::Local { what: "relay through ssh".to_owned(), error };
    let mut relay = Relay::bind().await.map_err(failed)?;
    let address = relay.address().map_err(failed)?;
    let endpoint = open(&settings.network, address)?;
    let port = endpoint.local_addr().map_err(failed)?.port();
    relay.start(port, link.wire.outgoing.clone()).await.map_err(failed)?;
    link.relay = Some(relay);
    Ok((endpoint, address))
}

/// The names at the top of what may arrive; `None` if a source has no name of its own, such as `host:.`.
fn names(job: &CopyJob, landing: &Landing) -> Option<Vec<Vec<u8>>> {
    match (&landing.rename, &job.direction) {
        (Some(name), _) => Some(vec![name.clone()]),
        (None, Direction::Download { sources, .. }) => sources.iter().map(|path| last_name(path)).collect(),
        (None, Direction::Upload { .. }) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::copy::wire::Frame;

    /// What the near end hears if the far end sends `frames`, one each 20 ms, and then nothing.
    async fn heard(frames: Vec<Frame>) -> Result<Result<Reply, WireError>, &'static str> {
        let (from, to) = io::pipe().unwrap();
        let far = Wire::far(io::empty(), to);
        let mut near = Wire::near(from, io::sink());
        let saying = async {
            for frame in frames {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let _ = far.outgoing.send(frame).await;
            }
            std::future::pending().await
        };
        let limit = Duration::from_millis(200);
        tokio::select! {
            heard = reply(&mut near, 10 * limit, limit) => heard.map_err(|(step, _)| step),
            () = saying => unreachable!(),
        }
    }

    #[tokio::test]
    async fn a_far_end_that_says_nothing_more_is_given_up_at_each_step() {
        let working = || Frame::message(&Reply::Working);
        assert_eq!(heard(Vec::new()).await.unwrap_err(), "start rc3");
        assert_eq!(heard(vec![working()]).await.unwrap_err(), "prepare the copy");
        // As long as it works.
        let mut frames: Vec<_> = (0..20).map(|_| working()).collect();
        frames.push(Frame::message(&Reply::Done { left_out: 3 }));
        assert!(matches!(heard(frames).await, Ok(Ok(Reply::Done { left_out: 3 }))));
    }
}
