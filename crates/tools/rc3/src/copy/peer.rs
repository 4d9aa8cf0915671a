//! The far end: what ssh starts. It ends with its standard input, so that it never outlives ssh.

use std::{
    env, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
    time::Duration,
};

use rc3_core::units::Rate;
use tokio::{task::JoinError, time::timeout};

use super::{
    landing::Landing,
    link::Link,
    message::{Action, Carrier, Choice, Handling, Reply, Request},
    place::path_of,
    relay::Relay,
    wire::Wire,
};
use crate::{
    cli::high,
    transfer::{
        destination::Destination,
        error::TransferError,
        interrupted,
        manifest::Found,
        network::{self, Network},
        once::{self, Listener, Role, Settings},
        paths::printable_path,
        progress::{Reporter, Style, line},
        random::random,
    },
};

/// Time for the request, which the near end writes before ssh has logged in.
const REQUEST_PATIENCE: Duration = Duration::from_secs(60);
/// Time between two signs of life while the sources are listed. The near end waits several times as long.
const WORKING_EVERY: Duration = Duration::from_secs(5);
/// Time for the near end to read the last message and close.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// A failure for the user at the near end.
struct Failure {
    message: String,
    hint: String,
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        Self { message: error.to_string(), hint: error.hint().to_owned() }
    }
}

/// What to do, and the new name of a single source.
type Prepared = (Work, Option<Vec<u8>>);

/// What to do once the peer connects.
enum Work {
    Receive(Destination),
    Send(Found, Option<Rate>),
}

/// Serves one copy on standard input and output.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn serve() {
    let mut wire = Wire::far(io::stdin(), io::stdout());
    // Without a request nobody reads an answer.
    let Ok(Ok(request)) = timeout(REQUEST_PATIENCE, wire.message::<Request>()).await else { return };
    let mut link = Link::new(wire);
    let left_out = match copy(request, &mut link).await {
        Ok(left_out) => left_out,
        Err(Failure { message, hint }) => {
            link.wire.send(&Reply::Failed { message, hint }).await;
            0
        }
    };
    link.wire.send(&Reply::Done { left_out }).await;
    // The last message must leave before the process does.
    let _ = timeout(END_PATIENCE, async { while link.wire.next().await.is_ok() {} }).await;
}

async fn copy(request: Request, link: &mut Link) -> Result<u32, Failure> {
    let settings = settings(&request);
    let role = if matches!(request.action, Action::Send { .. }) { Role::Sender } else { Role::Receiver };
    let (work, rename) = prepared(request.action, &link.wire)
        .await
        .map_err(|error| TransferError::Local { what: "work".to_owned(), error: error.into() })??;
    let listener = listen(role, &settings, request.carrier)?;
    if request.carrier == Carrier::Ssh {
        let relayed = async {
            let mut relay = Relay::bind().await?;
            relay.start(listener.address.port(), link.wire.outgoing.clone()).await?;
            io::Result::Ok(relay)
        };
        let failed = |error| TransferError::Local { what: "relay".to_owned(), error };
        link.relay = Some(relayed.await.map_err(failed)?);
    }
    let left_out = match &work {
        Work::Send(found, _) => report_left_out(found),
        Work::Receive(_) => 0,
    };
    let reply = Reply::Listening {
        address: env::var("SSH_CONNECTION").ok().and_then(|text| server_address(&text)),
        port: listener.address.port(),
        fingerprint: listener.fingerprint.0,
        secret: listener.secret.0,
        rename,
    };
    link.wire.send(&reply).await;
    transfer(&listener, &work, settings, link).await;
    Ok(left_out)
}

/// Prepares in the background, with signs of life: listing many files takes long.
async fn prepared(action: Action, wire: &Wire) -> Result<Result<Prepared, Failure>, JoinError> {
    let mut preparing = tokio::task::spawn_blocking(move || prepare(action));
    let mut tick = tokio::time::interval(WORKING_EVERY);
    loop {
        tokio::select! {
            prepared = &mut preparing => return prepared,
            _ = tick.tick() => wire.send(&Reply::Working).await,
        }
    }
}

/// Prints skipped sources on standard error, which ssh passes on, except those that the manifest names; returns how many.
fn report_left_out(found: &Found) -> u32 {
    let left_out = found.left_out.iter().filter(|left_out| left_out.absent().is_none());
    let lines = left_out.inspect(|left_out| line(io::stderr(), &format!("left out: {left_out}")));
    u32::try_from(lines.count()).unwrap_or(u32::MAX)
}

/// The near end learns the outcome by the transfer itself.
async fn transfer(listener: &Listener, work: &Work, settings: Settings, link: &mut Link) {
    let mut reporter = Reporter::new(Style::Quiet, "copying");
    let destination = match work {
        Work::Receive(destination) => Some(destination),
        Work::Send(..) => None,
    };
    // Dropped after the close: the end of its streams must not arrive before the reason.
    let mut transferring = pin!(async {
        match work {
            Work::Receive(destination) => listener.receive(destination, &mut reporter).await,
            Work::Send(found, rate_limit) => {
                let job = super::send_job(listener.ticket()?, settings, *rate_limit);
                listener.send(&job, found, &mut reporter).await
            }
        }
    });
    let outcome = tokio::select! {
        outcome = transferring.as_mut() => outcome,
        // ssh is gone.
        _ = link.run() => Err(TransferError::Interrupted { kept: 0 }),
        () = interrupted() => Err(TransferError::Interrupted { kept: 0 }),
    };
    let _ = link.during(once::close(&listener.endpoint, destination, outcome)).await;
}

fn settings(request: &Request) -> Settings {
    let network = match request.carrier {
        Carrier::Udp { .. } => {
            Network { marking: high::marking(request.marks), path_memory: network::path_memory() }
        }
        Carrier::Ssh => super::unmarked(),
    };
    Settings { rlp: high::rlp(request.rlp), congestion: high::congestion(request.congestion), network }
}

/// Checks everything that can fail before the peer connects.
fn prepare(action: Action) -> Result<Prepared, Failure> {
    match action {
        Action::Receive { path, sources, policy } => receive(&path, sources, policy),
        Action::Send { paths, choice, rename, rate_limit } => {
            send(&paths, &choice, rename.as_deref(), rate_limit)
        }
    }
}

fn receive(path: &[u8], sources: u32, policy: Handling) -> Result<Prepared, Failure> {
    let path = path_of(path).unwrap_or_default();
    let Some(Landing { dir, rename }) = Landing::of(&path, sources as usize) else {
        let error = io::ErrorKind::NotADirectory.into();
        let what = format!("copy into {}", printable_path(&path));
        return Err(TransferError::Local { what, error }.into());
    };
    let failed = |error| TransferError::Local { what: format!("copy into {}", printable_path(&dir)), error };
    let destination = Destination::open(&dir, policy.into(), random()?).map_err(failed)?;
    Ok((Work::Receive(destination), rename))
}

fn send(
    paths: &[Vec<u8>],
    choice: &Choice,
    rename: Option<&[u8]>,
    rate_limit: Option<u64>,
) -> Result<Prepared, Failure> {
    let paths: Vec<_> = paths.iter().map(|path| path_of(path).unwrap_or_default()).collect();
    let selection = choice.selection().map_err(|error| TransferError::Refused(error.to_string()))?;
    let mut found = Found::scan(&paths, &selection).map_err(TransferError::from)?;
    if let Some(name) = rename {
        found.rename(name).map_err(|fault| TransferError::Refused(fault.to_string()))?;
    }
    if found.entries.is_empty() {
        return Err(TransferError::Nothing.into());
    }
    Ok((Work::Send(found, rate_limit.and_then(Rate::from_bits_per_second)), None))
}

/// The first free port of the range, or only loopback if ssh carries the datagrams.
fn listen(role: Role, settings: &Settings, carrier: Carrier) -> Result<Listener, TransferError> {
    let Carrier::Udp { first, last } = carrier else {
        return Listener::open(role, settings, Some((Ipv4Addr::LOCALHOST, 0).into()));
    };
    let mut outcome = Err(TransferError::Nothing);
    for port in first..=last.max(first) {
        let at = |ip: IpAddr| Some(SocketAddr::new(ip, port));
        outcome = Listener::open(role, settings, at(Ipv6Addr::UNSPECIFIED.into()))
            .or_else(|_| Listener::open(role, settings, at(Ipv4Addr::UNSPECIFIED.into())));
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
