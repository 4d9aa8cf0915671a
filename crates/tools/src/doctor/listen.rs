//! The peer of a check: answers authentic probes and remembers next to nothing.

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
use tokio::time::{sleep_until, timeout};

use super::probe::{Key, Kind, Probe};

/// Probes of one round kept for answering; more are not answered.
const ROUND_MAX: usize = 64;
/// A round is answered this long after its last probe.
const ROUND_PAUSE: Duration = Duration::from_millis(25);
/// How long a full send buffer may hold an answer up.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// Binds the listener's socket.
///
/// # Errors
/// When the address is taken or not local.
///
/// # Panics
/// Outside a tokio runtime with I/O.
pub fn bind(address: SocketAddr) -> io::Result<AsyncSocket> {
    // One datagram per message: the order of arrival is what matters.
    AsyncSocket::new(Socket::bind_plain(address, &Options { gro: false, ..Options::default() })?)
}

/// A probe that waits to be answered.
struct Waiting {
    remote: SocketAddr,
    reply: Probe,
    len: usize,
}

/// Answers for ever.
///
/// # Errors
/// When the socket becomes unusable.
pub async fn serve(socket: &AsyncSocket, key: &Key) -> io::Result<()> {
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
                answer_round(socket, key, &mut round).await?;
                continue;
            }
        }
        let arrived = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        for datagram in batch.datagrams() {
            let Some(probe) = Probe::parse(key, &datagram.data) else { continue };
            if probe.kind == Kind::Reply {
                continue;
            }
            if probe.run != run {
                (run, order) = (probe.run, 0);
            }
            let reply = Probe { kind: Kind::Reply, seen: datagram.meta.dscp, order, arrived, ..probe };
            order = order.saturating_add(1);
            let waiting = Waiting { remote: datagram.meta.remote, reply, len: datagram.data.len() };
            match probe.kind {
                Kind::Mark => send(socket, key, &waiting).await?,
                _ if round.len() < ROUND_MAX => {
                    flush = Instant::now() + ROUND_PAUSE;
                    round.push(waiting);
                }
                _ => {}
            }
        }
    }
}

/// Low priority first: what overtakes it on the way back shows.
async fn answer_round(socket: &AsyncSocket, key: &Key, round: &mut Vec<Waiting>) -> io::Result<()> {
    let low = round.iter().filter(|waiting| waiting.reply.low).count();
    let normal = round.len() - low;
    round.sort_by_key(|waiting| !waiting.reply.low);
    for mut waiting in round.drain(..) {
        // At most ROUND_MAX.
        (waiting.reply.low_arrived, waiting.reply.normal_arrived) = (low as u8, normal as u8);
        send(socket, key, &waiting).await?;
    }
    Ok(())
}

async fn send(socket: &AsyncSocket, key: &Key, waiting: &Waiting) -> io::Result<()> {
    let contents = waiting.reply.emit(key, waiting.len);
    send_marked(socket, waiting.remote, waiting.reply.dscp, waiting.reply.low, &contents).await
}

/// Sends one datagram with these marks, or gives it up when the socket stays full.
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
            // No way to there from here: as lost on the way.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(()),
            result => return result,
        }
    }
}
