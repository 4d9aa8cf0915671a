//! The listener's part in the probes of a path: answers authentic ones with hardly any state.

use std::{
    cmp::Reverse,
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
use tokio::time::{sleep_until, timeout};

use super::probe::{Probe, ProbeKey, ProbeKind};

/// Most stored probes of one round; further probes get no answer.
const ROUND_MAX: usize = 64;
/// A round is answered this long after its last probe.
const ROUND_PAUSE: Duration = Duration::from_millis(25);
/// How long a full send buffer may delay an answer.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// How long a session may be silent, and last.
const SILENCE_MAX: Duration = Duration::from_secs(5);
const SESSION_MAX: Duration = Duration::from_secs(60);

/// A socket for probes and answers.
///
/// # Errors
/// When the address is taken or not local.
pub(super) fn bind(address: SocketAddr) -> io::Result<AsyncSocket> {
    // One datagram per message, because the order of arrival matters.
    AsyncSocket::new(Socket::bind_plain(address, &Options { gro: false, ..Options::default() })?)
}

/// A probe waiting for its answer.
struct PendingReply {
    remote: SocketAddr,
    reply: Probe,
    len: usize,
}

/// Answers the probes of one session, until its visitor ends it or is silent.
///
/// # Errors
/// When the socket becomes unusable.
pub(super) async fn answer(socket: &AsyncSocket, key: &ProbeKey) -> io::Result<()> {
    let start = Instant::now();
    let mut order = 0;
    let mut round: Vec<PendingReply> = Vec::new();
    let mut batch = RecvBatch::new();
    let (mut flush, mut heard) = (start, start);
    while start.elapsed() < SESSION_MAX {
        let receive = poll_fn(|cx| socket.poll_recv(cx, &mut batch));
        tokio::select! {
            received = receive => { received?; }
            () = sleep_until(flush.into()), if !round.is_empty() => {
                answer_round(socket, key, &mut round).await?;
                continue;
            }
            () = sleep_until((heard + SILENCE_MAX).into()) => break,
        }
        let arrived = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        for datagram in batch.datagrams() {
            let Some(probe) = Probe::parse(key, &datagram.data) else { continue };
            match probe.kind {
                ProbeKind::Reply => continue,
                ProbeKind::End => return Ok(()),
                ProbeKind::Mark | ProbeKind::Burst => heard = Instant::now(),
            }
            let reply = Probe { kind: ProbeKind::Reply, seen: datagram.meta.dscp, order, arrived, ..probe };
            order = order.saturating_add(1);
            let waiting = PendingReply { remote: datagram.meta.remote, reply, len: datagram.data.len() };
            match probe.kind {
                ProbeKind::Mark => send(socket, key, &waiting).await?,
                _ if round.len() < ROUND_MAX => {
                    flush = Instant::now() + ROUND_PAUSE;
                    round.push(waiting);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The worst level first, so that overtaking on the way back becomes visible.
async fn answer_round(socket: &AsyncSocket, key: &ProbeKey, round: &mut Vec<PendingReply>) -> io::Result<()> {
    let low = round.iter().filter(|waiting| waiting.reply.low).count();
    let normal = round.len() - low;
    round.sort_by_key(|waiting| Reverse((waiting.reply.low, waiting.reply.dscp)));
    for mut waiting in round.drain(..) {
        // At most ROUND_MAX.
        (waiting.reply.low_arrived, waiting.reply.normal_arrived) = (low as u8, normal as u8);
        send(socket, key, &waiting).await?;
    }
    Ok(())
}

async fn send(
    socket: &AsyncSocket,
    key: &ProbeKey,
    PendingReply { remote, reply, len }: &PendingReply,
) -> io::Result<()> {
    send_marked(socket, *remote, reply.dscp, reply.low, &reply.emit(key, *len)).await
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
