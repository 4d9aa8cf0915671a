//! The near end: starts ssh, asks the far end to listen, and transfers.

use std::{
    net::SocketAddr,
    pin::{Pin, pin},
    time::Duration,
};

use rc3_core::units::Rate;
use rc3_net::Endpoint;
use tokio::{io::AsyncBufRead, time::timeout};

use super::{
    CopyJob, Direction,
    cli::{CopyArgs, ViaSsh},
    place::last_name,
    relay::Relay,
    settings,
    ssh::Ssh,
    transfer,
    wire::{Action, Carrier, FRAME_BYTES_MAX, Frame, Reply, Request, Unanswered, VERSION, Wire, skip_banner},
};
use crate::error::{Error, ErrorKind, Result};
use crate::transfer::{
    addresses::resolve,
    asked::Asked,
    interrupted,
    manifest::Found,
    meet::{Settings, open},
    message::{MessageError, Messages, encode, listen_up_to},
    outage::Tries,
    paths::printable,
    progress::{Event, Reporter},
    session::outbox,
    side::{Meeting, Side},
    ticket::{Fingerprint, Secret, Ticket},
};

/// Time for ssh to log in and start rc3 there. People may type a password meanwhile.
const START_PATIENCE: Duration = Duration::from_secs(75);
/// Time for each further message of the far end, which sends one every few seconds until it listens.
const WORK_PATIENCE: Duration = Duration::from_secs(30);

/// Copies, by UDP or through ssh, until the user interrupts.
///
/// # Errors
/// See [`Error`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn copy(job: CopyJob, reporter: &mut Reporter) -> Result<()> {
    copy_until(interrupted(), job, reporter).await
}

/// As [`copy`], but `stop` interrupts it instead of the user's signals, so that a program keeps its own handlers.
///
/// # Errors
/// See [`Error`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn copy_until(stop: impl Future<Output = ()>, job: CopyJob, reporter: &mut Reporter) -> Result<()> {
    let mut stop = pin!(stop);
    let (mut side, rename) = side(&job)?;
    if let Side::Send(Found { left_out, dropped, .. }, _) = &side {
        dropped.report(reporter);
        left_out.iter().for_each(|left_out| reporter.report(&Event::from(left_out)));
    }
    let (first, last) = job.args.port;
    let udp = Carrier::Udp { first, last };
    let mut carrier = if job.args.via_ssh == ViaSsh::Always { Carrier::Ssh } else { udp };
    let action = action(&job, rename);
    let mut tries = Tries::new(job.args.network.give_up_after);
    let skipped = loop {
        let error = match attempt(stop.as_mut(), &job, &mut side, &action, carrier, reporter).await {
            Ok(skipped) => break skipped,
            Err(error) => error,
        };
        let auto = job.args.via_ssh == ViaSsh::Auto && carrier == udp;
        if auto && error.kind() == ErrorKind::NoUdp {
            reporter.note("UDP does not answer; trying again through ssh");
            carrier = Carrier::Ssh;
            continue;
        }
        tokio::select! {
            // If `stop` was the failure, it must not be awaited again.
            biased;
            again = tries.wait_after(error, reporter) => again?,
            () = stop.as_mut() => return Err(Error::interrupted(0)),
        }
    };
    if skipped == 0 { Ok(()) } else { Err(Error::left_out(skipped)) }
}

/// What this host does, and the new name that a download gives to a single source.
fn side(job: &CopyJob) -> Result<(Side, Option<Vec<u8>>)> {
    match &job.direction {
        Direction::Upload { sources, .. } => {
            // The patterns were checked before.
            let selection = job.args.selection.resolve(job.args.preserve).unwrap_or_default();
            Ok((Side::sending(sources, &selection, None, job.args.rate_limit)?, None))
        }
        Direction::Download { sources, path } => {
            // Of a source without a name of its own, such as `host:.`, any may come.
            let names = sources.iter().map(|path| last_name(path)).collect();
            let asked = Asked::Download { names, links: job.args.selection.links };
            let (mut side, rename) = Side::receiving(path, sources.len(), job.args.policy(), asked)?;
            if let (Side::Receive(_, Asked::Download { names, .. }), Some(name)) = (&mut side, &rename) {
                *names = Some(vec![name.clone()]);
            }
            Ok((side, rename))
        }
    }
}

/// What the other host does.
fn action(job: &CopyJob, rename: Option<Vec<u8>>) -> Action {
    match &job.direction {
        Direction::Upload { path, sources } => Action::Receive {
            path: path.clone(),
            sources: u32::try_from(sources.len()).unwrap_or(u32::MAX),
            policy: job.args.policy,
            fsync: job.args.fsync,
        },
        Direction::Download { sources, .. } => Action::Send {
            paths: sources.clone(),
            selection: job.args.selection.clone(),
            rename,
            rate_limit: job.args.rate_limit.map(Rate::bits_per_second),
        },
    }
}

/// One ssh session with one transfer. Returns how many entries are left out.
async fn attempt(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    job: &CopyJob,
    side: &mut Side,
    action: &Action,
    carrier: Carrier,
    reporter: &mut Reporter,
) -> Result<usize> {
    let (mut ssh, from, to) = Ssh::start(job)?;
    let (outbox, _) = outbox(to);
    let CopyArgs { preserve, rlp, congestion, network, .. } = &job.args;
    let request = Request {
        action: action.clone(),
        preserve: *preserve,
        carrier,
        rlp: *rlp,
        congestion: *congestion,
        marks: network.marks,
    };
    let _ = outbox.send(encode(&Frame::Request(request))).await;
    let answer = tokio::select! {
        answer = reply(from, START_PATIENCE, WORK_PATIENCE) => answer,
        () = stop.as_mut() => return Err(Error::interrupted(0)),
    };
    let (reply, messages) = match answer {
        Ok(answer) => answer,
        Err(Unanswered::Ended) => return Err(ended(job, ssh.exit_code().await)),
        Err(Unanswered::Version(found)) => {
            let found = format!("it has {found} where this rc3 has {VERSION}");
            return Err(other_version(job, &found));
        }
        Err(Unanswered::Silent(step, patience)) => {
            let hint = "check that `ssh HOST rc3 --version` prints a version and ends: a login or a start-up file may wait for input";
            return Err(Error::silent(&job.host, step, patience).hinted(hint));
        }
        Err(Unanswered::Invalid(reason)) => return Err(invalid(job, &reason)),
    };
    let (ticket, rename, left_out) = ticket(job, reply, carrier)?;
    if let (Side::Send(found, _), Some(name)) = (&mut *side, &rename) {
        found.rename(name).map_err(|fault| invalid(job, &fault.to_string()))?;
    }
    let mut wire = Wire::new(messages, outbox);
    let qlog = job.args.output.qlog.clone().or_else(rc3_net::qlog::directory_from_env);
    let settings = Settings { qlog, ..settings(*rlp, *congestion, network.clone(), carrier) };
    let (endpoint, addresses) = reach(&ticket, &settings, carrier, &mut wire).await?;
    let meeting = Meeting::Connect(endpoint, addresses, ticket.clone(), settings);
    let moved = match transfer(side, &meeting, &mut wire, stop, reporter).await {
        Ok(()) => Ok(0),
        Err(error) => match error.kind() {
            ErrorKind::LeftOut(entries) => Ok(entries),
            ErrorKind::Connect if carrier != Carrier::Ssh => Err(Error::new(
                ErrorKind::NoUdp,
                format!("UDP {} of {} does not answer", ticket.port(), ticket.host()),
                "open it there or choose another by --port, pass another --address, or use --via-ssh",
            )),
            _ => Err(error),
        },
    };
    // The far end leaves when its standard input ends.
    drop(wire);
    if moved.is_ok() {
        ssh.leave();
    } else {
        ssh.exit_code().await;
    }
    moved.map(|here| here + left_out as usize)
}

/// The far end's answer once it is ready, and its further messages.
async fn reply(
    mut from: impl AsyncBufRead + Unpin + Send + 'static,
    start: Duration,
    work: Duration,
) -> Result<(Reply, Messages<Frame>), Unanswered> {
    let (mut step, mut patience) = ("start rc3", start);
    let begun = timeout(patience, skip_banner(&mut from)).await;
    begun.map_err(|_| Unanswered::Silent(step, patience))??;
    let mut messages = listen_up_to(FRAME_BYTES_MAX, from);
    loop {
        let heard = timeout(patience, messages.recv()).await;
        let heard = heard.map_err(|_| Unanswered::Silent(step, patience))?;
        match heard.unwrap_or(Err(MessageError::Ended))? {
            Frame::Reply(Reply::Working) => (step, patience) = ("prepare the copy", work),
            Frame::Reply(reply) => return Ok((reply, messages)),
            Frame::Datagram(_) | Frame::Request(_) => {}
        }
    }
}

/// Where the far end listens, the new name of a single source there, and how many sources it leaves out.
fn ticket(job: &CopyJob, reply: Reply, carrier: Carrier) -> Result<(Ticket, Option<Vec<u8>>, u32)> {
    match reply {
        Reply::Failed { message, hint } => {
            let message = format!("{}: {}", job.host, printable(&message));
            Err(Error::new(ErrorKind::Other, message, printable(&hint)))
        }
        Reply::Working => Err(invalid(job, "it works for ever")),
        Reply::Listening { address, port, fingerprint, secret, rename, left_out } => {
            let host = match (carrier, &job.args.address, address) {
                (Carrier::Ssh, ..) => "127.0.0.1".to_owned(),
                (_, Some(address), _) => address.clone(),
                (_, None, Some(address)) => address.to_string(),
                (_, None, None) => {
                    let message = format!("{} does not report its address", job.host);
                    let hint = "pass its address by --address, or use --via-ssh";
                    return Err(Error::new(ErrorKind::Other, message, hint));
                }
            };
            let ticket = Ticket::new(&host, port, Fingerprint(fingerprint), Secret(secret));
            Ok((ticket.map_err(|error| invalid(job, &error.to_string()))?, rename, left_out))
        }
    }
}

/// ssh ended before the far end answered.
fn ended(job: &CopyJob, code: Option<i32>) -> Error {
    let (host, program) = (&job.host, &job.args.rc3_path);
    match code {
        Some(255) => {
            let hint = "the lines above are ssh's; try: ssh HOST true";
            Error::new(ErrorKind::Ssh, format!("ssh to {host} failed"), hint)
        }
        Some(126 | 127) => {
            let hint = "install rc3 there, or pass its path by --rc3-path";
            Error::new(ErrorKind::NoPeer, format!("{host} has no {program}"), hint)
        }
        // A usage error: it does not know the command.
        Some(2) => other_version(job, "it does not know `copy`"),
        Some(code) => invalid(job, &format!("it ended with exit code {code}")),
        None => invalid(job, "it ended"),
    }
}

fn other_version(job: &CopyJob, found: &str) -> Error {
    let message = format!("rc3 at {} has another version: {found}", job.host);
    Error::new(ErrorKind::Version, message, "install the same version of rc3 on both hosts")
}

/// The far end answers neither as rc3 nor as a shell.
fn invalid(job: &CopyJob, reason: &str) -> Error {
    let message = format!("no valid answer from {}: {reason}", job.host);
    let hint = "check that `ssh HOST rc3 --version` prints a version and no other output";
    Error::new(ErrorKind::Other, message, hint)
}

/// An endpoint, and the addresses that may reach the far end.
async fn reach(
    ticket: &Ticket,
    settings: &Settings,
    carrier: Carrier,
    wire: &mut Wire,
) -> Result<(Endpoint, Vec<SocketAddr>)> {
    if carrier != Carrier::Ssh {
        let addresses = resolve(ticket).await?;
        return Ok((open(&settings.network, &addresses)?, addresses));
    }
    let failed = |error| Error::local("relay through ssh", error);
    let mut relay = Relay::bind().await.map_err(failed)?;
    let addresses = vec![relay.address().map_err(failed)?];
    let endpoint = open(&settings.network, &addresses)?;
    let port = endpoint.local_addr().map_err(failed)?.port();
    relay.start(port, wire.outbox.clone()).await.map_err(failed)?;
    wire.relay = Some(relay);
    Ok((endpoint, addresses))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, BufReader};

    use super::*;
    use crate::copy::wire::MAGIC;

    /// What the near end hears if the far end sends `frames`, one each 20 ms, and then nothing.
    async fn heard(frames: Vec<Reply>) -> Result<Reply, &'static str> {
        let (near, mut far) = tokio::io::duplex(1000);
        let saying = async {
            far.write_all(format!("{MAGIC}{VERSION}\n").as_bytes()).await.unwrap();
            for reply in frames {
                tokio::time::sleep(Duration::from_millis(20)).await;
                far.write_all(&encode(&Frame::Reply(reply))).await.unwrap();
            }
            std::future::pending().await
        };
        let limit = Duration::from_millis(200);
        tokio::select! {
            heard = reply(BufReader::new(near), 10 * limit, limit) => match heard {
                Ok((reply, _)) => Ok(reply),
                Err(Unanswered::Silent(step, _)) => Err(step),
                Err(other) => panic!("{other:?}"),
            },
            () = saying => unreachable!(),
        }
    }

    #[tokio::test]
    async fn a_far_end_that_says_nothing_more_is_given_up_at_each_step() {
        assert_eq!(heard(Vec::new()).await, Err("start rc3"));
        assert_eq!(heard(vec![Reply::Working]).await, Err("prepare the copy"));
        // As long as it works.
        let done = || Reply::Failed { message: "full".to_owned(), hint: String::new() };
        let mut frames = vec![Reply::Working; 20];
        frames.push(done());
        assert_eq!(heard(frames).await, Ok(done()));
    }
}
