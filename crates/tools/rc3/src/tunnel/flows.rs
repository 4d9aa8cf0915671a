//! UDP flows of a tunnel: what one address sends to a forwarded port, and what comes back.
//!
//! A stream opens a flow and ends it. Datagrams travel as datagrams of QUIC (RFC 9221), after the number of their flow in
//! two bytes. Before the answer of the stream, and if they are too long for that, they travel in the stream, each after
//! its length in two bytes. Invariant: a flow takes one datagram at a time;
//! others wait within the limits of their port or in the system's buffers, or are lost.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use rc3_net::Connection;
use tokio::{
    io::AsyncReadExt,
    net::UdpSocket,
    sync::{OwnedSemaphorePermit, mpsc},
    time::sleep,
};

use super::{
    FLOWS_MAX,
    relay::{Broken, TargetStream, answer_of},
};

/// A flow without datagrams for this long ends, within twice the time. NATs keep a mapping for at least two minutes
/// (RFC 4787 REQ-5).
const IDLE: Duration = Duration::from_secs(150);
/// The longest payload of a datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Bytes of a flow's number, and of a length.
const PREFIX: usize = 2;

/// The flows of one connection.
#[derive(Debug, Default)]
pub(super) struct Flows(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    flows: HashMap<u16, Arc<Flow>>,
    /// The number of the next flow, if it is free. One that was in use lately would get datagrams of an older flow.
    next: u16,
}

/// One flow, as seen from this side.
#[derive(Debug)]
struct Flow {
    socket: Arc<UdpSocket>,
    /// Without, the socket is connected.
    to: Option<SocketAddr>,
    /// A datagram has passed since the last look.
    passed: AtomicBool,
}

/// Where the datagrams of this side come from.
pub(super) enum Source {
    /// A socket that is connected to a target.
    Target(Arc<UdpSocket>),
    /// What arrived at a port from one address, each with its part of the bytes that may wait there.
    Port(mpsc::Receiver<(Bytes, OwnedSemaphorePermit)>),
}

impl Source {
    async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Port(datagrams) => datagrams.recv().await.map(|(datagram, _)| datagram),
            Self::Target(socket) => loop {
                match arrival(socket).await {
                    Ok((datagram, _)) => return Some(datagram),
                    // Nobody takes the datagrams, now.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(_) => return None,
                }
            },
        }
    }
}

/// The next datagram at a socket. No buffer is kept while none comes.
pub(super) async fn arrival(socket: &UdpSocket) -> io::Result<(Bytes, SocketAddr)> {
    loop {
        socket.readable().await?;
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        match socket.try_recv_from(&mut buffer) {
            Ok((length, from)) => return Ok((Bytes::copy_from_slice(&buffer[..length]), from)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// A flow that the peer knows by a number, until it is dropped.
#[derive(Debug)]
pub(super) struct NumberedFlow {
    flows: Arc<Flows>,
    flow: Arc<Flow>,
    pub(super) number: u16,
}

impl Drop for NumberedFlow {
    fn drop(&mut self) {
        self.flows.locked().flows.remove(&self.number);
    }
}

impl Flow {
    /// Hands a datagram of the peer on. As in any network, it may be lost.
    fn deliver(&self, datagram: &[u8]) {
        self.passed.store(true, Relaxed);
        let _ = match self.to {
            Some(to) => self.socket.try_send_to(datagram, to),
            None => self.socket.try_send(datagram),
        };
    }

    async fn until_idle(&self) {
        loop {
            sleep(IDLE).await;
            if !self.passed.swap(false, Relaxed) {
                return;
            }
        }
    }
}

impl Flows {
    fn locked(&self) -> MutexGuard<'_, Numbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A flow with a number that the opener of its stream chose; `None` if another one has it, or there are too many.
    pub(super) fn numbered(
        self: &Arc<Self>,
        number: u16,
        socket: Arc<UdpSocket>,
        to: Option<SocketAddr>,
    ) -> Option<NumberedFlow> {
        let flow = Arc::new(Flow { socket, to, passed: AtomicBool::new(true) });
        let flows = &mut self.locked().flows;
        if flows.contains_key(&number) || flows.len() >= FLOWS_MAX as usize {
            return None;
        }
        flows.insert(number, Arc::clone(&flow));
        Some(NumberedFlow { flows: Arc::clone(self), flow, number })
    }

    /// A flow of datagrams from this address, with a number that is free.
    pub(super) fn opened(self: &Arc<Self>, socket: Arc<UdpSocket>, from: SocketAddr) -> Option<NumberedFlow> {
        let number = {
            let mut numbers = self.locked();
            let mut from_next = (0..=u16::MAX).map(|past| numbers.next.wrapping_add(past));
            let number = from_next.find(|number| !numbers.flows.contains_key(number))?;
            numbers.next = number.wrapping_add(1);
            number
        };
        self.numbered(number, socket, Some(from))
    }

    /// Hands datagrams of the peer to their flows, until the connection ends.
    pub(super) async fn deliver(&self, connection: &Connection) {
        while let Ok(datagram) = connection.read_datagram().await {
            let Some((number, datagram)) = datagram.split_first_chunk::<PREFIX>() else { continue };
            let flow = self.locked().flows.get(&u16::from_be_bytes(*number)).cloned();
            if let Some(flow) = flow {
                flow.deliver(datagram);
            }
        }
    }
}

impl NumberedFlow {
    /// What its target sends.
    pub(super) fn target(&self) -> Source {
        Source::Target(Arc::clone(&self.flow.socket))
    }

    /// Carries datagrams until the stream ends, the source has no more, or none has passed for a while. Without the answer
    /// that is due all of them travel in the stream.
    pub(super) async fn carry(
        &self,
        connection: &Connection,
        stream: TargetStream,
        answer_due: bool,
        mut source: Source,
    ) -> Result<(), Broken> {
        let TargetStream { mut send, mut recv } = stream;
        let answered = AtomicBool::new(!answer_due);
        let outward = async {
            while let Some(datagram) = source.next().await {
                self.flow.passed.store(true, Relaxed);
                // The system hands over no longer ones.
                let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
                let fits = |max| datagram.len() + PREFIX <= max;
                if answered.load(Relaxed) && connection.max_datagram_size().is_some_and(fits) {
                    let _ = connection.send_datagram(prefixed(self.number, &datagram));
                } else {
                    send.write_chunk(prefixed(length, &datagram))
                        .await
                        .map_err(|error| Broken::Peer(error.into()))?;
                }
            }
            Ok(())
        };
        let inward = async {
            if answer_due {
                answer_of(&mut recv).await?;
                answered.store(true, Relaxed);
            }
            loop {
                let length = match recv.read_u16().await {
                    Ok(length) => length,
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                    Err(error) => return Err(Broken::Peer(error)),
                };
                let mut datagram = vec![0; length.into()];
                AsyncReadExt::read_exact(&mut recv, &mut datagram).await.map_err(Broken::Peer)?;
                self.flow.deliver(&datagram);
            }
        };
        tokio::select! {
            ended = outward => ended,
            ended = inward => ended,
            () = self.flow.until_idle() => Ok(()),
        }
    }
}

fn prefixed(prefix: u16, datagram: &[u8]) -> Bytes {
    [&prefix.to_be_bytes(), datagram].concat().into()
}
