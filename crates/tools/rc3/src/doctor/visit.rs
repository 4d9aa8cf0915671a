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

/// Requests for a flow: one may be lost.
const REQUESTS: u32 = 3;
const REQUEST_PAUSE: Duration = Duration::from_millis(20);

/// Visits the listener with this ticket; `None` when nobody answers. Marks that were found to be useful are kept.
///
/// # Errors
/// When the listener's name has no address, or a socket becomes unusable.
pub async fn visit(
    ticket: &Ticket,
    network: &Network,
    mut tell: impl FnMut(Step),
) -> io::Result<Option<(PathReport, Option<Flows>)>> {
    let run = u64::from_be_bytes(random().map_err(io::Error::other)?);
    let key = Key::new(ticket.secret());
    for remote in lookup_host((ticket.host(), ticket.port())).await? {
        let any: IpAddr =
            if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = listen::bind(SocketAddr::new(any, 0))?;
        let Some(report) = path::check(&socket, remote, &key, run, &mut tell).await? else { continue };
        keep_marks(network, remote, any, &report);
        let request = Probe { run, ..Probe::request(Kind::Flow) }.emit(&key, LEN_MIN);
        for _ in 0..REQUESTS {
            send_marked(&socket, remote, 0, false, &request).await?;
            sleep(REQUEST_PAUSE).await;
        }
        let flows = flows(remote, &key, &report, network, &mut tell).await;
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
            tracing::debug!(%error, "marks that were found are not saved");
        }
    }
}

/// Flows, if the listener has introduced itself: others know none.
async fn flows(
    remote: SocketAddr,
    key: &Key,
    report: &PathReport,
    network: &Network,
    tell: &mut impl FnMut(Step),
) -> Option<Flows> {
    let fingerprint = report.fingerprint?;
    tell(Step::There(0));
    let measured = flow::measure(remote, fingerprint, key, network, tell).await;
    measured.inspect_err(|error| tracing::debug!(%error, "no flow")).ok()
}
