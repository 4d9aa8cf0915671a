//! The whole check of the path to a listener.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use rc3_net::paths::PathMemory;
use tokio::{net::lookup_host, time::sleep};

use super::{
    Step,
    flow::{self, Flows},
    listen::{self, send_marked},
    path::{self, PathReport},
    probe::{Key, Kind, LEN_MIN, Probe},
};
use crate::transfer::{network::Network, random::random, ticket::Ticket};

/// Requests for a flow, as some may be lost.
const REQUESTS: u32 = 3;
const REQUEST_PAUSE: Duration = Duration::from_millis(20);

/// Checks the path to the listener of this ticket; `None` without answers. Stores marks that proved useful.
///
/// # Errors
/// When the listener's name does not resolve, or a socket becomes unusable.
pub async fn visit(
    ticket: &Ticket,
    network: &Network,
    mut progress: impl FnMut(Step),
) -> io::Result<Option<(PathReport, Option<Flows>)>> {
    let run = u64::from_be_bytes(random().map_err(io::Error::other)?);
    let key = Key::new(ticket.secret());
    for remote in lookup_host((ticket.host(), ticket.port())).await? {
        let any: IpAddr =
            if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = listen::bind(SocketAddr::new(any, 0))?;
        let Some(report) = path::check(&socket, remote, &key, run, &mut progress).await? else { continue };
        keep_marks(network, remote, any, &report);
        let request = Probe { run, ..Probe::request(Kind::Flow) }.emit(&key, LEN_MIN);
        for _ in 0..REQUESTS {
            send_marked(&socket, remote, 0, false, &request).await?;
            sleep(REQUEST_PAUSE).await;
        }
        let flows = flows(remote, &key, &report, network, &mut progress).await;
        return Ok(Some((report, flows)));
    }
    Ok(None)
}

/// For `rc3 send --marks auto`.
fn keep_marks(network: &Network, remote: SocketAddr, bound: IpAddr, report: &PathReport) {
    if let (Some(path), Some(marks)) = (&network.path_memory, report.advice.evidence()) {
        let memory = PathMemory::open(path);
        memory.set_marks(remote, bound, marks);
        if let Err(error) = memory.save() {
            tracing::debug!(%error, "cannot save the useful marks");
        }
    }
}

/// Flows, if the listener announced its certificate; older listeners do not.
async fn flows(
    remote: SocketAddr,
    key: &Key,
    report: &PathReport,
    network: &Network,
    progress: &mut impl FnMut(Step),
) -> Option<Flows> {
    let fingerprint = report.fingerprint?;
    progress(Step::There(0));
    let measured = flow::measure(remote, fingerprint, key, network, progress).await;
    measured.inspect_err(|error| tracing::debug!(%error, "no flow")).ok()
}
