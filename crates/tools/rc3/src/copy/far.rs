//! The far end: what ssh starts. It ends with its standard input, so that it never outlives ssh.

use std::{
    env, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
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
    wire::{Action, Carrier, FRAME_BYTES_MAX, Frame, MAGIC, Reply, Request, VERSION, Wire},
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
        message::{FromReceiver, FromSender, listen_up_to},
        progress::{Observer, Reporter, Style},
        receive::new_identity,
        session::outbox,
        side::{Meeting, Side},
    },
};

/// Time for the request, which the near end writes before ssh has logged in.
const REQUEST_PATIENCE: Duration = Duration::from_secs(60);
/// Time between two signs of life while the sources are listed. The near end waits several times as long.
const WORKING_EVERY: Duration = Duration::from_secs(5);

/// Serves one copy on standard input and output.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn serve() {
    let mut to = stdout();
    let hello = format!("\n{MAGIC}{VERSION}\n");
    if to.write_all(hello.as_bytes()).await.is_err() || to.flush().await.is_err() {
        return;
    }
    let mut messages = listen_up_to(FRAME_BYTES_MAX, BufReader::new(stdin()));
    // Without a request nobody reads an answer.
    let first = timeout(REQUEST_PATIENCE, messages.recv()).await;
    let Ok(Some(Ok(Frame::Request(request)))) = first else { return };
    let mut wire = Wire::new(messages, outbox(to).0);
    if let Err(error) = copy(request, &mut wire).await {
        wire.reply(Reply::Failed { message: error.to_string(), hint: error.hint().to_owned() }).await;
    }
    // The last frames must leave before the process does. The near end leaves as soon as it has them.
    let _ = timeout(END_PATIENCE, wire.run()).await;
}

async fn copy(request: Request, wire: &mut Wire) -> Result<()> {
    let Request { action, preserve, carrier, rlp, congestion, marks } = request;
    let settings = settings(rlp, congestion, NetworkArgs::with_marks(marks), carrier);
    let (side, rename) = prepared(action, preserve, wire).await?;
    let listener = listen(&side, &settings, carrier)?;
    if carrier == Carrier::Ssh {
        let relayed = async {
            let mut relay = Relay::bind().await?;
            relay.start(listener.address.port(), wire.outbox.clone()).await?;
            io::Result::Ok(relay)
        };
        wire.relay = Some(relayed.await.map_err(|error| Error::local("relay", error))?);
    }
    let reply = Reply::Listening {
        address: env::var("SSH_CONNECTION").ok().and_then(|text| server_address(&text)),
        port: listener.address.port(),
        fingerprint: listener.fingerprint.0,
        secret: listener.secret.0,
        rename,
        left_out: report_left_out(&side),
    };
    wire.reply(reply).await;
    // The near end learns the outcome by the transfer itself, and prints it.
    let mut reporter = Reporter::observed(Observer::new(|_| {}));
    let _ = transfer(&side, &Meeting::Listen(listener), wire, interrupted(), &mut reporter).await;
    Ok(())
}

/// Prepares in the background, with signs of life: listing many files takes long. Also returns the new name of a single
/// source.
async fn prepared(action: Action, preserve: Preserve, wire: &Wire) -> Result<(Side, Option<Vec<u8>>)> {
    let mut preparing = tokio::task::spawn_blocking(move || prepare(action, preserve));
    let mut tick = tokio::time::interval(WORKING_EVERY);
    loop {
        tokio::select! {
            prepared = &mut preparing => {
                return prepared.map_err(|error| Error::local("work", error))?;
            }
            _ = tick.tick() => wire.reply(Reply::Working).await,
        }
    }
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
fn listen(side: &Side, settings: &Settings, carrier: Carrier) -> Result<Listener> {
    let open = |ip: IpAddr, port| {
        let (identity, address) = (new_identity()?, Some(SocketAddr::new(ip, port)));
        match side {
            Side::Send(..) => Listener::open::<FromReceiver>(identity, settings, address),
            Side::Receive(..) => Listener::open::<FromSender>(identity, settings, address),
        }
    };
    let Carrier::Udp { first, last } = carrier else { return open(Ipv4Addr::LOCALHOST.into(), 0) };
    let mut outcome = Err(Error::nothing());
    for port in first..=last.max(first) {
        outcome =
            open(Ipv6Addr::UNSPECIFIED.into(), port).or_else(|_| open(Ipv4Addr::UNSPECIFIED.into(), port));
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
