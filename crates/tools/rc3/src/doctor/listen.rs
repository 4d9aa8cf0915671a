//! The peer of a check: answers authentic probes with hardly any state, and takes part in the flow at the end.

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use rc3_core::units::Level;
use rc3_net::{
    marks::Marks,
    socket::{AsyncSocket, Options, Outgoing, RecvBatch, Socket},
};
use tokio::time::{sleep, sleep_until, timeout};

use super::{
    flow,
    probe::{Key, Kind, Probe},
};
use crate::transfer::{identity::Identity, network::Network, ticket::Fingerprint};

/// Most stored probes of one round; further probes get no answer.
const ROUND_MAX: usize = 64;
/// A round is answered this long after its last probe.
const ROUND_PAUSE: Duration = Duration::from_millis(25);
/// How long a full send buffer may delay an answer.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// How long reopening a released port may take.
const REBIND_TRIES: u32 = 200;
const REBIND_PAUSE: Duration = Duration::from_millis(10);

/// Binds the listener's socket.
///
/// # Errors
/// When the address is taken or not local.
///
/// # Panics
/// Outside a tokio runtime with I/O.
pub fn bind(address: SocketAddr) -> io::Result<AsyncSocket> {
    // One datagram per message, because the order of arrival matters.
    AsyncSocket::new(Socket::bind_plain(address, &Options { gro: false, ..Options::default() })?)
}

/// A probe waiting for its answer.
struct Waiting {
    remote: SocketAddr,
    reply: Probe,
    len: usize,
}

/// Answers for ever. A flow takes over the socket's port, which firewalls already pass; meanwhile other hosts get no
/// answers.
///
/// # Errors
/// When the port becomes unusable.
pub async fn serve(
    mut socket: AsyncSocket,
    key: &Key,
    identity: &Identity,
    network: &Network,
) -> io::Result<()> {
    let local = socket.local_addr()?;
    loop {
        answer(&socket, key, identity.fingerprint()).await?;
        drop(socket);
        flow::serve(local, key, identity, network).await?;
        socket = rebind(local).await?;
    }
}

/// The endpoint of a flow releases the port when its task ends.
async fn rebind(local: SocketAddr) -> io::Result<AsyncSocket> {
    for _ in 0..REBIND_TRIES {
        match bind(local) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => sleep(REBIND_PAUSE).await,
            bound => return bound,
        }
    }
    bind(local)
}

/// Answers until a flow is requested.
async fn answer(socket: &AsyncSocket, key: &Key, fingerprint: Fingerprint) -> io::Result<()> {
    let start = Instant::now();
    let (mut run, mut order) = (0, 0);
    let mut round: Vec<Waiting> = Vec::new();
    let mut batch = RecvBatch::new();
    let mut flush = Instant::now();
    loop {
        let receive = poll_fn(|cx| socket.poll_recv(cx, &mut batch));
        tokio::select! {
            received = receive => { received?; }
            () = sleep_until(flush.into()), if !round.is_empty() => {
                answer_round(socket, key, fingerprint, &mut round).await?;
                continue;
            }
        }
        let arrived = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        for datagram in batch.datagrams() {
            let Some(probe) = Probe::parse(key, &datagram.data) else { continue };
            match probe.kind {
                Kind::Reply => continue,
                // A replayed request belongs to another run.
                Kind::Flow if probe.run == run => return Ok(()),
                Kind::Flow => continue,
                Kind::Mark | Kind::Burst => {}
            }
            if probe.run != run {
                (run, order) = (probe.run, 0);
            }
            let reply = Probe { kind: Kind::Reply, seen: datagram.meta.dscp, order, arrived, ..probe };
            order = order.saturating_add(1);
            let waiting = Waiting { remote: datagram.meta.remote, reply, len: datagram.data.len() };
            match probe.kind {
                Kind::Mark => send(socket, key, fingerprint, &waiting).await?,
                _ if round.len() < ROUND_MAX => {
                    flush = Instant::now() + ROUND_PAUSE;
                    round.push(waiting);
                }
                _ => {}
            }
        }
    }
}

/// Low priority first, so that overtaking on the way back becomes visible.
async fn answer_round(
    socket: &AsyncSocket,
    key: &Key,
    fingerprint: Fingerprint,
    round: &mut Vec<Waiting>,
) -> io::Result<()> {
    let low = round.iter().filter(|waiting| waiting.reply.low).count();
    let normal = round.len() - low;
    round.sort_by_key(|waiting| !waiting.reply.low);
    for mut waiting in round.drain(..) {
        // At most ROUND_MAX.
        (waiting.reply.low_arrived, waiting.reply.normal_arrived) = (low as u8, normal as u8);
        send(socket, key, fingerprint, &waiting).await?;
    }
    Ok(())
}

async fn send(
    socket: &AsyncSocket,
    key: &Key,
    fingerprint: Fingerprint,
    waiting: &Waiting,
) -> io::Result<()> {
    let contents = waiting.reply.emit_with(key, waiting.len, fingerprint);
    send_marked(socket, waiting.remote, waiting.reply.dscp, waiting.reply.low, &contents).await
}

/// Sends one datagram with these marks; drops it if the socket stays full.
pub(super) async fn send_marked(
    socket: &AsyncSocket,
    destination: SocketAddr,
    dscp: u8,
    low: bool,
    contents: &[u8],
) -> io::Result<()> {
    let level = if low { Level::FIRST } else { Level::PRIMARY };
    let out = Outgoing {
        destination,
        source: None,
        ecn: 0,
        dscp,
        priority: Marks::default().priority(level),
        contents,
        segment_size: None,
        dont_fragment: true,
    };
    loop {
        match socket.try_send(&out) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if timeout(SEND_PATIENCE, poll_fn(|cx| socket.poll_writable(cx))).await.is_err() {
                    return Ok(());
                }
            }
            // No route to the destination: treat it as lost.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(()),
            result => return result,
        }
    }
}
