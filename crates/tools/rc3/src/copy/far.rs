//! The far end: what ssh starts. It ends with its standard input, so that it never outlives ssh.

use std::{
    env, io,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use rc3_core::units::Rate;
use tokio::{
    io::{AsyncWriteExt, BufReader, stdin, stdout},
    time::timeout,
};

use super::{
    END_PATIENCE,
    place::path_of,
    relay::Relay,
    settings, transfer,
    wire::{Action, Carrier, FRAME_BYTES_MAX, Frame, Listening, MAGIC, Reply, Request, VERSION, Wire},
};
use crate::{
    cli::low::NetworkArgs,
    error::{Error, Result},
    log,
    transfer::{
        asked::Asked,
        attributes::Preserve,
        interrupted,
        meet::{Listener, Settings},
        message::{FromReceiver, FromSender, encode, listen_up_to},
        progress::{Observer, Reporter, Style},
        reachable,
        receive::new_identity,
        session::{Outbox, outbox},
        side::{Meeting, Side},
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
pub async fn serve(listening: Option<String>) {
    let mut to = stdout();
    let hello = format!("\n{MAGIC}{VERSION}\n");
    if to.write_all(hello.as_bytes()).await.is_err() || to.flush().await.is_err() {
        return;
    }
    let asked = || Some(env::var(ORIGINAL_COMMAND).ok()?.split(' ').next_back()?.to_owned());
    // A near end of another version has read enough.
    let Some(listening) = listening.or_else(asked).and_then(|word| Listening::from_word(&word)) else {
        return;
    };
    let mut wire = Wire::new(listen_up_to(FRAME_BYTES_MAX, BufReader::new(stdin())), outbox(to).0);
    if let Err(error) = copy(listening, &mut wire).await {
        wire.reply(Reply::Failed { message: error.to_string(), hint: error.hint().to_owned() }).await;
    }
    // The last frames must leave before the process does. The near end leaves as soon as it has them.
    let _ = timeout(END_PATIENCE, wire.run()).await;
}

async fn copy(
    Listening { sends, carrier, rlp, congestion, marks }: Listening,
    wire: &mut Wire,
) -> Result<()> {
    let settings = settings(rlp, congestion, NetworkArgs::with_marks(marks), carrier);
    let listener = listen(sends, &settings, carrier)?;
    if carrier == Carrier::Ssh {
        let relayed = async {
            let mut relay = Relay::bind().await?;
            relay.start(listener.address.port(), wire.outbox.clone()).await?;
            io::Result::Ok(relay)
        };
        wire.relay = Some(relayed.await.map_err(|error| Error::local("relay", error))?);
    }
    wire.reply(Reply::Listening {
        address: env::var("SSH_CONNECTION").ok().and_then(|text| server_address(&text)),
        port: listener.address.port(),
        fingerprint: listener.fingerprint.0,
        secret: listener.secret.0,
    })
    .await;
    // Without a request nobody reads an answer.
    let heard = timeout(REQUEST_PATIENCE, wire.hear()).await;
    let Ok(Ok(Frame::Request(request))) = heard else { return Ok(()) };
    let meeting = Meeting::Listen(listener);
    let outbox = wire.outbox.clone();
    let begun = async { tokio::try_join!(prepared(request, &outbox), meeting.meet(sends)) };
    let (side, control) = wire.during(begun).await?;
    // The near end learns the outcome by the transfer itself, and prints it.
    let mut reporter = Reporter::observed(Observer::new(|_| {}));
    let _ = transfer(&side, &meeting, control, wire, interrupted(), &mut reporter).await;
    Ok(())
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

/// The first free port of the range, or only loopback if ssh carries the datagrams.
fn listen(sends: bool, settings: &Settings, carrier: Carrier) -> Result<Listener> {
    let open = |address| {
        let identity = new_identity()?;
        if sends {
            Listener::open::<FromReceiver>(identity, settings, Some(address))
        } else {
            Listener::open::<FromSender>(identity, settings, Some(address))
        }
    };
    let Carrier::Udp { first, last } = carrier else { return open((Ipv4Addr::LOCALHOST, 0).into()) };
    let mut outcome = Err(Error::nothing());
    for port in first..=last.max(first) {
        outcome = reachable::bind(None, port, open);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// `SSH_CONNECTION` has the client's address and port, then the server's.
fn server_address(connection: &str) -> Option<IpAddr> {
    connection.split(' ').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sshd_reports_the_address_that_was_reached() {
        let address = |text| server_address(text).map(|ip| ip.to_string());
        assert_eq!(address("192.0.2.1 50000 198.51.100.7 22"), Some("198.51.100.7".to_owned()));
        assert_eq!(address("2001:db8::1 50000 2001:db8::7 22"), Some("2001:db8::7".to_owned()));
        assert_eq!(address("UNKNOWN 65535 UNKNOWN 65535"), None);
        assert_eq!(address(""), None);
    }
}
