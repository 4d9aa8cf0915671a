//! Any other system: one datagram per call, with ECN, source addresses and Don't Fragment as quinn-udp sets and reads them
//! there; no code points, no priorities, no steering.

use std::{
    io::{self, IoSliceMut},
    mem,
    net::{IpAddr, SocketAddr},
};

use quinn_udp::{EcnCodepoint, RecvMeta as UdpMeta, Transmit, UdpSocketState};
use rc3_core::WorkerHash;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::super::{
    Capabilities, Options, Outgoing, RECV_MESSAGES_MAX, RecvBatch, Stats, batch::SLOT_BYTES, for_family,
    local_addr, stats::Counters,
};

/// Memory for one receive call; quinn-udp needs initialised bytes.
#[derive(Default)]
pub(in crate::socket) struct Scratch(Vec<u8>);

/// The state of a socket.
#[derive(Debug)]
pub(in crate::socket) struct SocketState {
    ipv6: bool,
    udp: UdpSocketState,
    recv_buffer: usize,
    send_buffer: usize,
    counters: Counters,
}

pub(in crate::socket) fn open(address: SocketAddr, options: &Options) -> io::Result<(Socket, SocketState)> {
    let io = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        // Some systems have no dual-stack sockets; IPv6 alone is still useful.
        let _ = io.set_only_v6(false);
    }
    // Best effort: the sizes in force are read back below.
    let _ = io.set_recv_buffer_size(options.recv_buffer);
    let _ = io.set_send_buffer_size(options.send_buffer);
    io.bind(&SockAddr::from(address))?;
    let state = state_of(&io, address.is_ipv6())?;
    Ok((io, state))
}

/// A socket that the application has bound.
pub(in crate::socket) fn adopt(io: &Socket, options: &Options) -> io::Result<SocketState> {
    if io.recv_buffer_size()? < options.recv_buffer {
        let _ = io.set_recv_buffer_size(options.recv_buffer);
    }
    if io.send_buffer_size()? < options.send_buffer {
        let _ = io.set_send_buffer_size(options.send_buffer);
    }
    state_of(io, local_addr(io)?.is_ipv6())
}

/// Of a bound socket, which does not block from here on.
fn state_of(io: &Socket, ipv6: bool) -> io::Result<SocketState> {
    Ok(SocketState {
        ipv6,
        udp: UdpSocketState::new(io.into())?,
        recv_buffer: io.recv_buffer_size()?,
        send_buffer: io.send_buffer_size()?,
        counters: Counters::default(),
    })
}

/// There is no steering, so there is no second socket.
pub(in crate::socket) fn open_steered(_: &Socket, _: &Options) -> io::Result<Option<(Socket, SocketState)>> {
    Ok(None)
}

/// Nor are there several workers.
pub(in crate::socket) fn open_group(
    _: &Socket,
    _: &Options,
    _: &WorkerHash,
) -> io::Result<Vec<(Socket, SocketState)>> {
    let text = "several workers need sockets that the kernel steers, which only Linux has; use one worker";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

pub(in crate::socket) fn queued_bytes(_: &Socket) -> usize {
    0
}

impl SocketState {
    pub(in crate::socket) fn send(&self, io: &Socket, out: &Outgoing<'_>) -> io::Result<()> {
        let segment = out.checked_segment()?.unwrap_or(out.contents.len()).max(1);
        let destination = for_family(out.destination, self.ipv6)?;
        let src_ip = out.source.map(|ip| self.source_for_family(ip));
        let whole = out.contents.len().div_ceil(segment).max(1);
        // An empty payload is still one datagram.
        for index in 0..whole {
            let start = index * segment;
            let end = out.contents.len().min(start + segment);
            self.counters.add(|stats| &mut stats.send_syscalls, 1);
            let sent = self.udp.try_send(
                io.into(),
                &Transmit {
                    destination,
                    ecn: EcnCodepoint::from_bits(out.ecn),
                    contents: &out.contents[start..end],
                    segment_size: None,
                    src_ip,
                },
            );
            match self.counters.sent(sent, out, 1) {
                Err(_) if index > 0 => {
                    self.counters.add(|stats| &mut stats.send_drops, whole - index);
                    return Ok(());
                }
                result => result?,
            }
        }
        Ok(())
    }

    /// Dual-stack sockets of Unix name their IPv4 addresses as they receive them, those of Windows as IPv4 addresses.
    fn source_for_family(&self, ip: IpAddr) -> IpAddr {
        match ip {
            IpAddr::V4(v4) if self.ipv6 && cfg!(unix) => v4.to_ipv6_mapped().into(),
            ip => ip,
        }
    }

    pub(in crate::socket) fn recv(&self, io: &Socket, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.refill();
        let mut scratch = mem::take(&mut batch.scratch);
        scratch.0.resize(SLOT_BYTES, 0);
        let received = self.fill(io, batch, &mut scratch.0);
        batch.scratch = scratch;
        received
    }

    fn fill(&self, io: &Socket, batch: &mut RecvBatch, scratch: &mut [u8]) -> io::Result<usize> {
        for _ in 0..RECV_MESSAGES_MAX {
            let mut meta = [UdpMeta::default()];
            match self.udp.recv(io.into(), &mut [IoSliceMut::new(scratch)], &mut meta) {
                Ok(_) => {}
                Err(error) if is_answer(&error) => continue,
                Err(error) if batch.messages.is_empty() => return Err(self.counters.recv_failed(error)),
                Err(_) => break,
            }
            self.counters.add(|stats| &mut stats.recv_syscalls, 1);
            self.counters.add(|stats| &mut stats.received_datagrams, batch.push(&meta[0], scratch));
        }
        Ok(batch.messages.len())
    }

    pub(in crate::socket) fn set_shared(&self, _: bool) {}

    /// Whether datagrams may be fragmented on their way.
    pub(in crate::socket) fn may_fragment(&self) -> bool {
        self.udp.may_fragment()
    }

    pub(in crate::socket) fn segments_max(&self) -> usize {
        1
    }

    pub(in crate::socket) fn capabilities(&self) -> Capabilities {
        Capabilities { recv_buffer: self.recv_buffer, send_buffer: self.send_buffer, ..Capabilities::NONE }
    }

    pub(in crate::socket) fn stats(&self, _: &Socket) -> Stats {
        self.counters.snapshot(0)
    }
}

/// Whether Windows reports by it what became of a datagram sent earlier: nobody listens there, or it made too many hops
/// (`WSAENETRESET`, without a kind of its own). Anyone on the path can cause both.
fn is_answer(error: &io::Error) -> bool {
    const WSAENETRESET: i32 = 10_052;
    error.kind() == io::ErrorKind::ConnectionReset || error.raw_os_error() == Some(WSAENETRESET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_an_earlier_datagram_is_no_fault_of_the_socket() {
        assert!(is_answer(&io::ErrorKind::ConnectionReset.into()));
        assert!(is_answer(&io::Error::from_raw_os_error(10_052)));
        assert!(!is_answer(&io::ErrorKind::WouldBlock.into()));
    }
}
