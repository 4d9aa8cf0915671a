//! The near end: starts ssh, asks the far end to listen, and transfers.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::{Pin, pin},
    time::Duration,
};

use rc3_core::units::Rate;
use tokio::{io::AsyncBufRead, task::JoinSet, time::timeout};

use super::{
    CopyJob, Direction, END_PATIENCE,
    cli::{CopyArgs, ViaSsh},
    direct::NearPort,
    place::last_name,
    settings,
    ssh::Ssh,
    tell, transfer,
    wire::{
        Action, Carrier, FRAME_BYTES_MAX, Frame, Reply, Request, Terms, Unanswered, VERSION, Wire,
        skip_banner,
    },
};
use crate::cli::{high::network, low::NetworkArgs};
use crate::error::{Error, ErrorKind, Result};
use crate::transfer::{
    addresses::{addresses_of, ordered, single_hosts},
    asked::Asked,
    direct::Met,
    manifest::Found,
    mapping::Mapping,
    meet::{Settings, join, open},
    message::{MessageError, Messages, encode, listen_up_to},
    network::Network,
    outage::Tries,
    paths::printable,
    progress::{Event, Reporter},
    send::or_stop,
    session::{Outbox, outbox},
    side::Side,
    ticket::{Fingerprint, Secret, Trust},
};

/// Time for ssh to log in and start rc3 there. People may type a password meanwhile.
const START_PATIENCE: Duration = Duration::from_secs(75);
/// Time for each further message of the far end, which sends one every few seconds until it listens.
const WORK_PATIENCE: Duration = Duration::from_secs(30);

/// Copies, by UDP or through ssh, until `stop` interrupts it.
///
/// # Errors
/// See [`Error`].
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn copy_until(stop: impl Future<Output = ()>, job: CopyJob, reporter: &mut Reporter) -> Result<()> {
    let mut stop = pin!(stop);
    let (mut side, mut action) = sides(&job)?;
    if let Side::Send(Found { left_out, dropped, .. }, _) = &side {
        dropped.report(reporter);
        left_out.iter().for_each(|left_out| reporter.report(&Event::from(left_out)));
    }
    let mut tries = Tries::new(job.args.network.give_up_after);
    let skipped = loop {
        let error = match attempt(stop.as_mut(), &job, &mut side, &mut action, reporter).await {
            Ok(skipped) => break skipped,
            Err(error) => error,
        };
        // If `stop` was the failure, it is not awaited again.
        or_stop(stop.as_mut(), tries.wait_after(error, reporter)).await?;
    };
    if skipped == 0 { Ok(()) } else { Err(Error::left_out(skipped)) }
}

/// What this host does, and what the other one does.
fn sides(CopyJob { direction, args, .. }: &CopyJob) -> Result<(Side, Action)> {
    match direction {
        Direction::Upload { sources, path } => {
            // The patterns were checked before.
            let selection = args.selection.resolve(args.preserve).unwrap_or_default();
            let there = Action::Receive {
                path: path.clone(),
                sources: u32::try_from(sources.len()).unwrap_or(u32::MAX),
                policy: args.policy,
                fsync: args.fsync,
            };
            Ok((Side::sending(sources, &selection, None, args.rate_limit)?, there))
        }
        Direction::Download { sources, path } => {
            // Of a source without a name of its own, such as `host:.`, any may come.
            let names = sources.iter().map(|path| last_name(path)).collect();
            let asked = Asked::Download { names, links: args.selection.links };
            let (mut here, rename) = Side::receiving(path, sources.len(), args.policy(), asked)?;
            if let (Side::Receive(_, Asked::Download { names, .. }), Some(name)) = (&mut here, &rename) {
                *names = Some(vec![name.clone()]);
            }
            let there = Action::Send {
                paths: sources.clone(),
                selection: args.selection.clone(),
                rename,
                rate_limit: args.rate_limit.map(Rate::bits_per_second),
            };
            Ok((here, there))
        }
    }
}

/// One ssh session with one transfer. Returns how many entries are left out.
async fn attempt(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    job: &CopyJob,
    side: &mut Side,
    action: &mut Action,
    reporter: &mut Reporter,
) -> Result<usize> {
    let CopyArgs { preserve, loops, network, via_ssh, .. } = &job.args;
    let request = requested(Request { action: action.clone(), preserve: *preserve })?;
    let sends = matches!(side, Side::Send(..));
    let NetworkArgs { marks, no_path_memory, give_up_after, .. } = *network;
    let network = settings_of(job, Carrier::Udp).network;
    let direct = (*via_ssh != ViaSsh::Always).then(|| NearPort::open(job, &network)).transpose()?;
    let mapping = direct.as_ref().map(|port| Mapping::ask(&port.direct.endpoint, &network));
    let udp = direct.as_ref().map(|direct| direct.terms(job.args.port, network.maps_ports)).transpose()?;
    let (sends_there, loops, remembers) = (!sends, *loops, !no_path_memory);
    let terms = Terms { sends: sends_there, udp, loops, marks, remembers, give_up_after };
    let (mut ssh, from, to) = Ssh::start(job, &terms)?;
    let (outbox, _) = outbox(to);
    let _ = outbox.send(request).await;
    let mut telling = JoinSet::new();
    if let Some(mapping) = &mapping {
        telling.spawn(tell(mapping.mapped(), outbox.clone()));
    }
    let begun = tokio::select! {
        begun = begin(job, sends, direct, from, outbox, reporter) => begun,
        () = stop.as_mut() => return Err(Error::interrupted(0)),
    };
    telling.abort_all();
    let (met, mut wire, Prepared { rename, left_out }) = match begun {
        Ok(begun) => begun,
        Err(unanswered) => {
            let code = ssh.exit_code().await;
            return Err(no_answer(job, unanswered, code));
        }
    };
    if let (Side::Send(found, _), Some(name)) = (&mut *side, &rename) {
        found.rename(name).map_err(|fault| invalid(job, &fault.to_string()))?;
        action.on_renamed();
    }
    let moved = match transfer(side, met, &mut wire, stop, reporter).await {
        Ok(()) => Ok(0),
        Err(error) => match error.kind() {
            ErrorKind::LeftOut(entries) => Ok(entries),
            _ => Err(error),
        },
    };
    if let Some(mapping) = mapping {
        mapping.end().await;
    }
    // The far end leaves when its standard input ends.
    drop(wire);
    if moved.is_ok() {
        ssh.leave();
    } else {
        ssh.exit_code().await;
    }
    moved.map(|here| here + left_out as usize)
}

/// The frame of a request, which the far end reads up to [`FRAME_BYTES_MAX`].
fn requested(request: Request) -> Result<Vec<u8>> {
    let frame = encode(&Frame::Request(request));
    if frame.len() > FRAME_BYTES_MAX {
        let message = format!("the paths there and the patterns are longer than {FRAME_BYTES_MAX} bytes");
        return Err(Error::usage(message, "name their directory, or run several commands"));
    }
    Ok(frame)
}

/// What the far end says when it has prepared the copy.
struct Prepared {
    /// The new name of a single source there.
    rename: Option<Vec<u8>>,
    /// How many sources the far end leaves out.
    left_out: u32,
}

/// The transport of this end.
fn settings_of(job: &CopyJob, carrier: Carrier) -> Settings {
    let CopyArgs { loops, network: args, gateway, output, .. } = &job.args;
    let network = Network { maps_ports: gateway.maps_ports(), ..network(args.clone()) };
    Settings { qlog: output.qlog(), ..settings(*loops, network, carrier) }
}

/// Meets the far end, by UDP if that is open, else through ssh, and waits until that has prepared the copy.
async fn begin(
    job: &CopyJob,
    sends: bool,
    direct: Option<NearPort>,
    from: impl AsyncBufRead + Unpin + Send + 'static,
    outbox: Outbox,
    reporter: &mut Reporter,
) -> Result<(Met, Wire, Prepared), Unanswered> {
    let (reply, messages) = reply(from, START_PATIENCE).await?;
    let (port, trust, ips) = listening(reply)?;
    let (mut wire, mut prepared) = (Wire::new(messages, outbox), None);
    let met = match direct {
        Some(direct) => {
            let mapped = wire.mapped();
            let connecting = async {
                let addresses = addresses(job.args.address.as_deref(), &ips, port).await?;
                let settings = settings_of(job, Carrier::Udp);
                direct.connect(&addresses, mapped, port, trust, sends, &settings).await
            };
            match meet(&mut wire, &mut prepared, connecting).await {
                Err(Unanswered::Here(error))
                    if error.kind() == ErrorKind::NoUdp && may_fall_back(&job.args) =>
                {
                    reporter.note(&format!("{error}; the data goes through ssh"));
                    let _ = wire.outbox.send(encode(&Frame::ThroughSsh)).await;
                    through_ssh(job, sends, trust, &mut wire, &mut prepared).await
                }
                met => met,
            }
        }
        None => through_ssh(job, sends, trust, &mut wire, &mut prepared).await,
    };
    match (met, prepared) {
        (Ok(met), Some(prepared)) => Ok((met, wire, prepared)),
        (Ok(met), None) => {
            let prepared = ready(&mut wire, WORK_PATIENCE).await?;
            Ok((met, wire, prepared))
        }
        // If the far end has ended the connection, the reason is on its way through ssh.
        (Err(Unanswered::Here(error)), None) => {
            match timeout(END_PATIENCE, ready(&mut wire, WORK_PATIENCE)).await {
                Ok(Err(reason)) => Err(reason),
                _ => Err(error.into()),
            }
        }
        (Err(unanswered), _) => Err(unanswered),
    }
}

/// The outcome of `meeting`, while the wire carries datagrams and tells what the far end has prepared.
async fn meet(
    wire: &mut Wire,
    prepared: &mut Option<Prepared>,
    meeting: impl Future<Output = Result<Met>>,
) -> Result<Met, Unanswered> {
    let mut meeting = pin!(meeting);
    if prepared.is_none() {
        tokio::select! {
            ready = ready(wire, WORK_PATIENCE) => *prepared = Some(ready?),
            met = meeting.as_mut() => return Ok(met?),
        }
    }
    Ok(wire.during(meeting).await?)
}

/// Meets the far end by datagrams in frames.
async fn through_ssh(
    job: &CopyJob,
    sends: bool,
    trust: Trust,
    wire: &mut Wire,
    prepared: &mut Option<Prepared>,
) -> Result<Met, Unanswered> {
    let settings = settings_of(job, Carrier::Ssh);
    let endpoint = open(&settings.network, &[(Ipv4Addr::LOCALHOST, 0).into()])?;
    let port = endpoint.local_addr().map_err(|error| Error::local("relay through ssh", error))?.port();
    let at = [wire.relay_to(port).await?];
    let joining =
        async { Ok(Met { control: join(sends, &endpoint, &at, trust, &settings).await?, endpoint }) };
    meet(wire, prepared, joining).await
}

/// The far end's first answer, and its further messages.
async fn reply(
    mut from: impl AsyncBufRead + Unpin + Send + 'static,
    patience: Duration,
) -> Result<(Reply, Messages<Frame>), Unanswered> {
    let answered = async {
        skip_banner(&mut from).await?;
        let mut messages = listen_up_to(FRAME_BYTES_MAX, from);
        loop {
            if let Frame::Reply(reply) = messages.recv().await.unwrap_or(Err(MessageError::Ended))? {
                return Ok((reply, messages));
            }
        }
    };
    timeout(patience, answered).await.unwrap_or(Err(Unanswered::Silent("start rc3", patience)))
}

/// Waits, for at most so long without a sign of life, until the far end has prepared the copy.
///
/// Cancel-safe, as [`Wire::run`].
async fn ready(wire: &mut Wire, patience: Duration) -> Result<Prepared, Unanswered> {
    loop {
        let heard = timeout(patience, wire.hear()).await;
        match heard.map_err(|_| Unanswered::Silent("prepare the copy", patience))?? {
            Frame::Reply(Reply::Working) => {}
            Frame::Reply(Reply::Ready { rename, left_out }) => return Ok(Prepared { rename, left_out }),
            Frame::Reply(Reply::Failed { message, hint }) => {
                return Err(Unanswered::Failed { message, hint });
            }
            _ => return Err(Unanswered::Invalid("it is neither ready nor at work".to_owned())),
        }
    }
}

/// The far end's port, what it shows and wants to be shown, and the addresses that it names.
fn listening(reply: Reply) -> Result<(u16, Trust, Vec<IpAddr>), Unanswered> {
    match reply {
        Reply::Failed { message, hint } => Err(Unanswered::Failed { message, hint }),
        Reply::Working | Reply::Ready { .. } => {
            Err(Unanswered::Invalid("it works before it listens".to_owned()))
        }
        Reply::Listening { addresses, port, fingerprint, secret } => {
            Ok((port, (Fingerprint(fingerprint), Secret(secret)), addresses))
        }
    }
}

/// Where to try, in this order: the address that the user typed, or those that the far end names.
async fn addresses(typed: Option<&str>, ips: &[IpAddr], port: u16) -> Result<Vec<SocketAddr>> {
    match typed {
        Some(host) => addresses_of(host, port).await.map_err(|error| {
            Error::new(ErrorKind::Resolve, format!("cannot find {host}: {error}"), "check --address")
        }),
        // Both ends may be on this host.
        None if ips.first().is_some_and(IpAddr::is_loopback) => {
            Ok([vec![SocketAddr::new(ips[0], port)], single_hosts(&ips[1..], port)].concat())
        }
        None => Ok(ordered(single_hosts(ips, port))),
    }
}

/// Why the copy did not begin. `code` is ssh's, if it has ended.
fn no_answer(job: &CopyJob, unanswered: Unanswered, code: Option<i32>) -> Error {
    match unanswered {
        Unanswered::Ended => ended(job, code),
        Unanswered::Version(found) => {
            other_version(job, &format!("it has {found} where this rc3 has {VERSION}"))
        }
        Unanswered::Silent(step, patience) => {
            let hint = "check that `ssh HOST rc3 --version` prints a version and ends: a login or a start-up file may wait for input";
            Error::silent(&job.host, step, patience).hinted(hint)
        }
        Unanswered::Invalid(reason) => invalid(job, &reason),
        Unanswered::Failed { message, hint } => {
            let message = format!("{}: {}", job.host, printable(&message));
            Error::new(ErrorKind::Other, message, printable(&hint))
        }
        Unanswered::Here(error) => error,
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

/// Whether ssh may carry datagrams that UDP does not. TCP yields to nobody.
fn may_fall_back(args: &CopyArgs) -> bool {
    args.via_ssh == ViaSsh::Auto && !args.loops.background
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, BufReader};

    use super::*;
    use crate::{
        cli::low::SelectionArgs,
        copy::wire::MAGIC,
        transfer::{attributes::Preserve, ticket::ADDRESSES_MAX},
    };

    /// How the near end fails if the far end sends `frames`, one each 20 ms, and then nothing.
    async fn heard(frames: Vec<Reply>) -> Result<u32, &'static str> {
        let (near, mut far) = tokio::io::duplex(1000);
        let saying = async {
            far.write_all(format!("{MAGIC}{VERSION}\n").as_bytes()).await.unwrap();
            for reply in frames {
                tokio::time::sleep(Duration::from_millis(20)).await;
                far.write_all(&encode(&Frame::Reply(reply))).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let limit = Duration::from_millis(200);
        let hearing = async {
            let (_, messages) = reply(BufReader::new(near), 10 * limit).await?;
            let Prepared { left_out, .. } =
                ready(&mut Wire::new(messages, outbox(tokio::io::sink()).0), limit).await?;
            Ok(left_out)
        };
        tokio::select! {
            heard = hearing => heard.map_err(|unanswered| match unanswered {
                Unanswered::Silent(step, _) => step,
                other => panic!("{other:?}"),
            }),
            () = saying => unreachable!(),
        }
    }

    #[test]
    fn a_request_that_the_far_end_would_not_read_is_a_usage_error() {
        let request = |paths| {
            let action = Action::Send {
                paths: vec![vec![b'a'; 4000]; paths],
                selection: SelectionArgs { links: false, include: Vec::new(), exclude: Vec::new() },
                rename: None,
                rate_limit: None,
            };
            requested(Request { action, preserve: Preserve::default() })
        };
        assert!(request(250).is_ok());
        assert_eq!(request(300).unwrap_err().kind(), ErrorKind::Usage);
    }

    #[tokio::test]
    async fn a_far_end_names_few_addresses_of_single_hosts_and_the_user_others() {
        let tried = async |typed, ips: &[&str]| {
            let ips: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
            addresses(typed, &ips, 9).await.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let lies = ["127.0.0.1", "::1", "224.0.0.1", "ff02::1", "0.0.0.0", "::ffff:127.0.0.1"];
        // Only the address that ssh has reached may be this host.
        assert_eq!(tried(None, &lies).await.unwrap(), ["127.0.0.1:9"]);
        assert_eq!(tried(None, &lies[2..]).await.unwrap(), [""; 0]);
        let many: Vec<String> = (1..100).map(|nth| format!("192.0.2.{nth}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let all = tried(None, &many).await.unwrap();
        assert_eq!((all[0].as_str(), all.len()), ("192.0.2.1:9", ADDRESSES_MAX));
        assert_eq!(tried(Some("192.0.2.200"), &many).await.unwrap(), ["192.0.2.200:9"]);
        assert_eq!(tried(Some(""), &many).await.unwrap_err().kind(), ErrorKind::Resolve);
    }

    #[tokio::test]
    async fn a_far_end_that_says_nothing_more_is_given_up_at_each_step() {
        let listening =
            Reply::Listening { addresses: Vec::new(), port: 1, fingerprint: [0; 32], secret: [0; 16] };
        assert_eq!(heard(Vec::new()).await, Err("start rc3"));
        assert_eq!(heard(vec![listening.clone(), Reply::Working]).await, Err("prepare the copy"));
        // As long as it works.
        let ready = Reply::Ready { rename: None, left_out: 3 };
        let frames = [vec![listening], vec![Reply::Working; 20], vec![ready]].concat();
        assert_eq!(heard(frames).await, Ok(3));
    }
}
