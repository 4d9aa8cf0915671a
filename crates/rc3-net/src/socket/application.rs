//! A socket that an application implements, in the form the driver uses.

use std::{
    io::{self, IoSliceMut},
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use quinn_udp::{EcnCodepoint, RecvMeta as UdpMeta, Transmit};

use super::{
    Capabilities, MAX_GSO_SEGMENTS, Outgoing, RecvBatch, Stats, batch::SLOT_BYTES, for_family,
    stats::Counters,
};
use crate::runtime::{AsyncUdpSocket, UdpPoller};

/// Messages per receive call.
const MESSAGES_MAX: usize = 8;

/// A socket that an application implements. It has no marks and no queue that can be observed.
pub(crate) struct ApplicationSocket {
    io: Arc<dyn AsyncUdpSocket>,
    /// The driver is the only task that waits.
    poller: Mutex<Pin<Box<dyn UdpPoller>>>,
    /// Memory for one receive call; the trait needs initialised bytes.
    scratch: Mutex<Vec<u8>>,
    /// IPv4 destinations are written as IPv6 addresses.
    ipv6: bool,
    counters: Counters,
}

impl ApplicationSocket {
    pub(crate) fn new(io: Arc<dyn AsyncUdpSocket>) -> Self {
        let poller = Mutex::new(io.clone().create_io_poller());
        let scratch = Mutex::new(vec![0; MESSAGES_MAX * SLOT_BYTES]);
        let ipv6 = io.local_addr().is_ok_and(|local| local.is_ipv6());
        Self { io, poller, scratch, ipv6, counters: Counters::default() }
    }

    /// As [`super::Socket::try_send`]; code point, priority and fragmentation are not sent.
    pub(crate) fn try_send(&self, out: &Outgoing<'_>) -> io::Result<()> {
        let segment_size = out.checked_segment()?;
        let destination = for_family(out.destination, self.ipv6)?;
        self.counters.add(|stats| &mut stats.send_syscalls, 1);
        let sent = self.io.try_send(&Transmit {
            destination,
            ecn: EcnCodepoint::from_bits(out.ecn),
            contents: out.contents,
            segment_size,
            src_ip: out.source,
        });
        let datagrams = segment_size.map_or(1, |size| out.contents.len().div_ceil(size));
        self.counters.sent(sent, out, datagrams)
    }

    /// As [`super::AsyncSocket::poll_recv`].
    pub(crate) fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<usize>> {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut meta = [UdpMeta::default(); MESSAGES_MAX];
        let mut slots = scratch.chunks_exact_mut(SLOT_BYTES);
        let mut bufs: [_; MESSAGES_MAX] =
            std::array::from_fn(|_| IoSliceMut::new(slots.next().unwrap_or_default()));
        let received = ready!(self.io.poll_recv(cx, &mut bufs, &mut meta));
        let count = received.map_err(|error| self.counters.recv_failed(error))?;
        self.counters.add(|stats| &mut stats.recv_syscalls, 1);
        batch.refill();
        for (meta, bytes) in meta.iter().zip(scratch.chunks_exact(SLOT_BYTES)).take(count) {
            self.counters.add(|stats| &mut stats.received_datagrams, batch.push(meta, bytes));
        }
        Poll::Ready(Ok(batch.messages.len()))
    }

    /// As [`super::AsyncSocket::poll_writable`].
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poller.lock().unwrap_or_else(PoisonError::into_inner).as_mut().poll_writable(cx)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    pub(crate) fn may_fragment(&self) -> bool {
        self.io.may_fragment()
    }

    /// As [`Capabilities::gso_segments_max`].
    pub(crate) fn segments_max(&self) -> usize {
        self.io.max_transmit_segments().clamp(1, MAX_GSO_SEGMENTS)
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        Capabilities {
            gso_segments_max: self.segments_max(),
            gro: self.io.max_receive_segments() > 1,
            ..Capabilities::NONE
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counters.snapshot(0)
    }
}
