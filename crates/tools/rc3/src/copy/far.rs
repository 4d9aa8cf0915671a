//! The far end: what ssh starts. It ends with its standard input, so that it never outlives ssh.

use std::{
    env,
    future::pending,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::pin,
    time::Duration,
};

use rc3_core::units::Rate;
use tokio::{
    io::{AsyncWriteExt, BufReader, stdin, stdout},
    sync::oneshot,
    task::JoinSet,
    time::timeout,
};

use super::{
    END_PATIENCE,
    place::path_of,
    settings,
    targets::targets,
    tell, transfer,
    wire::{Action, Carrier, FRAME_BYTES_MAX, Frame, MAGIC, Reply, Request, Terms, UdpTerms, VERSION, Wire},
};
use crate::{
    error::{Error, Result},
    log,
    transfer::{
        asked::Asked,
        attributes::Preserve,
        direct::Met,
        identity::Identity,
        interrupted,
        mapping::Mapping,
        meet::{Listener, Settings},
        message::{encode, listen_up_to},
        network::{Network, path_memory},
        outage::GIVE_UP_RANGE,
        progress::{Observer, Reporter, Style},
        punch::Punch,
        reachable::{beyond_link, bind},
        receive::new_identity,
        session::{Outbox, outbox},
        side::Side,
        ticket::Secret,
    },
};

/// Time for the request, which the near end writes before ssh has logged in.
const REQUEST_PATIENCE: Duration = Duration::from_secs(60);
/// Time between two signs of life while the sources are listed. The near end waits several times as long.
const WORKING_EVERY: Duration = Duration::from_secs(5);
/// Where sshd puts the command of the client, if its keys may run only one.
const ORIGINAL_COMMAND: &str = "SSH_ORIGINAL_COMMAND";

/// Serves one copy on standard input and output, and listens as this word asks for.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn serve(terms: Option<String>) {
    let mut to = stdout();
    let hello = format!("\n{MAGIC}{VERSION}\n");
    if to.write_all(hello.as_bytes()).await.is_err() || to.flush().await.is_err() {
        return;
    }
    let asked = || Some(env::var(ORIGINAL_COMMAND).ok()?.split(' ').next_back()?.to_owned());
    // A near end of another version has read enough.
    let Some(terms) = terms.or_else(asked).and_then(|word| Terms::from_word(&word)) else { return };
    let mut wire = Wire::new(listen_up_to(FRAME_BYTES_MAX, BufReader::new(stdin())), outbox(to).0);
    if let Err(error) = copy(terms, &mut wire).await {
        wire.reply(Reply::Failed { message: error.to_string(), hint: error.hint().to_owned() }).await;
    }
    // The last frames must leave before the process does. The near end leaves as soon as it has them.
    let _ = timeout(END_PATIENCE, wire.run()).await;
}

async fn copy(terms: Terms, wire: &mut Wire) -> Result<()> {
    let there = Listening { identity: new_identity()?, terms };
    let carrier = if there.terms.udp.is_some() { Carrier::Udp } else { Carrier::Ssh };
    let listener = there.listen(carrier)?;
    if carrier == Carrier::Ssh {
        wire.relay_to(listener.address.port()).await?;
    }
    let [client, server] = ssh_ends(&env::var("SSH_CONNECTION").unwrap_or_default());
    wire.reply(Reply::Listening {
        addresses: addresses(server, beyond_link(listener.address.ip())),
        port: listener.address.port(),
        fingerprint: listener.fingerprint.0,
        secret: listener.secret.0,
    })
    .await;
    let settings = there.settings(carrier);
    let punch = Punch::new(&settings)?;
    let to = there.terms.udp.iter().flat_map(|udp| targets(client, udp));
    let punching: Vec<_> = to.filter_map(|to| punch.begin(&listener.endpoint, to)).collect();
    let mapping = Mapping::ask(&listener.endpoint, &settings.network);
    let mut telling = JoinSet::new();
    telling.spawn(tell(mapping.mapped(), wire.outbox.clone()));
    // Without a request nobody reads an answer.
    let heard = timeout(REQUEST_PATIENCE, wire.hear()).await;
    let Ok(Ok(Frame::Request(request))) = heard else { return Ok(()) };
    let (side, met) = begin(&there, request, listener, punch, wire).await?;
    drop((punching, telling));
    // The near end learns the outcome by the transfer itself, and prints it.
    let mut reporter = Reporter::observed(Observer::new(|_| {}));
    let _ = transfer(&side, met, wire, interrupted(), &mut reporter).await;
    mapping.end().await;
    Ok(())
}

/// Prepares the copy and meets the near end, by UDP or, if that asks for it, through ssh.
async fn begin(
    there: &Listening,
    request: Request,
    listener: Listener,
    punch: Punch,
    wire: &mut Wire,
) -> Result<(Side, Met)> {
    let outbox = wire.outbox.clone();
    let (relayed, instead) = oneshot::channel();
    let met = meet(listener, instead, punch, wire.mapped());
    let begun = async { tokio::try_join!(prepared(request, &outbox), met) };
    let mut begun = pin!(begun);
    tokio::select! {
        begun = begun.as_mut() => return begun,
        heard = wire.hear() => if let Ok(Frame::ThroughSsh) = heard {
            let listener = there.listen(Carrier::Ssh)?;
            wire.relay_to(listener.address.port()).await?;
            // If the near end has been met by now, it has given up on that.
            let _ = relayed.send(listener);
        },
    }
    tokio::select! {
        begun = begun => begun,
        // Nobody comes any more.
        () = wire.run() => Err(Error::gone("ssh or the near end ended")),
    }
}

/// The near end, at this port or that one if it comes. Opens the way of its gateway's port.
async fn meet(
    listener: Listener,
    instead: oneshot::Receiver<Listener>,
    punch: Punch,
    mapped: oneshot::Receiver<SocketAddr>,
) -> Result<Met> {
    let punching = async {
        let _punching = mapped.await.map(|at| punch.begin(&listener.endpoint, at));
        pending().await
    };
    let relayed = tokio::select! {
        control = listener.meet() => return Ok(Met { control: control?, endpoint: listener.endpoint }),
        Ok(relayed) = instead => relayed,
        never = punching => never,
    };
    // Its port is closed: nobody comes there any more.
    drop(listener);
    Ok(Met { control: relayed.meet().await?, endpoint: relayed.endpoint })
}

/// Prepares in the background, with signs of life: listing many files takes long. Says when it is ready.
async fn prepared(request: Request, outbox: &Outbox) -> Result<Side> {
    let reply = async |reply| outbox.send(encode(&Frame::Reply(reply))).await;
    let mut preparing = tokio::task::spawn_blocking(move || prepare(request.action, request.preserve));
    let mut tick = tokio::time::interval(WORKING_EVERY);
    let (side, rename) = loop {
        tokio::select! {
            prepared = &mut preparing => {
                break prepared.map_err(|error| Error::local("work", error))??;
            }
            _ = tick.tick() => {
                let _ = reply(Reply::Working).await;
            }
        }
    };
    let _ = reply(Reply::Ready { rename, left_out: report_left_out(&side) }).await;
    Ok(side)
}

/// Checks everything that can fail before the peer connects.
fn prepare(action: Action, preserve: Preserve) -> Result<(Side, Option<Vec<u8>>)> {
    match action {
        Action::Receive { path, sources, policy, fsync } => {
            let policy = policy.resolve(fsync.into(), preserve);
            Side::receiving(&path_of(&path), sources as usize, policy, Asked::Files)
        }
        Action::Send { paths, selection, rename, rate_limit } => {
            let paths: Vec<_> = paths.iter().map(|path| path_of(path)).collect();
            let selection = selection.resolve(preserve).map_err(Error::refused)?;
            let limit = rate_limit.and_then(Rate::from_bits_per_second);
            Ok((Side::sending(&paths, &selection, rename.as_deref(), limit)?, None))
        }
    }
}

/// Prints skipped sources on standard error, which ssh passes on, except those that the manifest names; returns how many.
fn report_left_out(side: &Side) -> u32 {
    let Side::Send(found, _) = side else { return 0 };
    found.dropped.report(&Reporter::new(Style::Lines, ""));
    let left_out = found.left_out.iter().filter(|left_out| left_out.absent().is_none());
    let lines = left_out.inspect(|left_out| log::line(format_args!("left out: {left_out}")));
    u32::try_from(lines.count()).unwrap_or(u32::MAX)
}

/// How this end listens, whatever carries the datagrams.
struct Listening {
    identity: (Identity, Secret),
    terms: Terms,
}

impl Listening {
    fn settings(&self, carrier: Carrier) -> Settings {
        let Terms { loops, marks, remembers, give_up_after, .. } = self.terms;
        let maps_ports = carrier == Carrier::Udp && self.terms.udp.as_ref().is_some_and(|udp| udp.maps_ports);
        let network = Network {
            marking: marks,
            path_memory: path_memory().filter(|_| remembers),
            give_up_after: give_up_after.clamp(*GIVE_UP_RANGE.start(), *GIVE_UP_RANGE.end()),
            maps_ports,
        };
        settings(loops, network, carrier)
    }

    /// The first free port of the range, or only loopback if ssh carries the datagrams.
    fn listen(&self, carrier: Carrier) -> Result<Listener> {
        let settings = self.settings(carrier);
        let open = |address| Listener::open(!self.terms.sends, &self.identity, &settings, Some(address));
        let (Carrier::Udp, Some(UdpTerms { ports: (first, last), .. })) = (carrier, &self.terms.udp) else {
            return open((Ipv4Addr::LOCALHOST, 0).into());
        };
        let mut outcome = Err(Error::nothing());
        for port in *first..=*last.max(first) {
            outcome = bind(None, port, open);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }
}

/// The client and the server. `SSH_CONNECTION` has the client's address and port, then the server's.
fn ssh_ends(connection: &str) -> [Option<IpAddr>; 2] {
    [0, 2].map(|nth| connection.split(' ').nth(nth)?.parse().ok())
}

/// The addresses to tell: that which ssh has reached works mostly.
fn addresses(reached: Option<IpAddr>, own: Vec<IpAddr>) -> Vec<IpAddr> {
    let own = own.into_iter().filter(|ip| Some(*ip) != reached);
    reached.into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::low::{CongestionChoice, LoopArgs, RlpChoice},
        transfer::network::Marking,
    };

    #[test]
    fn the_far_end_remembers_paths_and_gives_up_as_the_near_end_asks() {
        let loops =
            LoopArgs { rlp: RlpChoice::Guard, congestion: CongestionChoice::Cubic, background: false };
        let network = |remembers, hours: u64| {
            let give_up_after = Duration::from_secs(hours * 3600);
            let terms =
                Terms { sends: true, udp: None, loops, marks: Marking::Auto, remembers, give_up_after };
            Listening { identity: new_identity().unwrap(), terms }.settings(Carrier::Udp).network
        };
        assert_eq!(network(true, 2).path_memory, path_memory());
        assert_eq!(network(false, 2).path_memory, None);
        assert_eq!(network(true, 2).give_up_after, Duration::from_secs(7200));
        // What the command line refuses.
        assert_eq!(network(true, 1000).give_up_after, *GIVE_UP_RANGE.end());
        assert_eq!(network(true, 0).give_up_after, *GIVE_UP_RANGE.start());
    }

    #[test]
    fn sshd_reports_the_address_that_was_reached() {
        let address = |text| ssh_ends(text)[1].map(|ip| ip.to_string());
        assert_eq!(address("192.0.2.1 50000 198.51.100.7 22"), Some("198.51.100.7".to_owned()));
        assert_eq!(address("2001:db8::1 50000 2001:db8::7 22"), Some("2001:db8::7".to_owned()));
        assert_eq!(address("UNKNOWN 65535 UNKNOWN 65535"), None);
        assert_eq!(address(""), None);
        let client = ssh_ends("192.0.2.1 50000 198.51.100.7 22")[0].unwrap();
        let own = ["198.51.100.7", "10.0.0.5"].map(|ip| ip.parse().unwrap()).to_vec();
        assert_eq!(addresses(own.first().copied(), own.clone()), own);
        assert_eq!(addresses(Some(client), own.clone()), [vec![client], own].concat());
    }
}
