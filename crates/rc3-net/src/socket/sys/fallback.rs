//! Any other system: one datagram per call, no marks, no steering.

use std::{io, net::SocketAddr};

use rc3_core::WorkerHash;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::super::{
    Capabilities, Options, Outgoing, RECV_MESSAGES_MAX, RecvBatch, RecvMeta, Stats, batch::KernelMessage,
    for_family, local_addr, stats::Counters,
};

/// Errors after which a socket is unusable; their codes differ between systems.
pub(in crate::socket) const UNUSABLE: [i32; 0] = [];

/// The state of a socket.
#[derive(Debug)]
pub(in crate::socket) struct SocketState {
    ipv6: bool,
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
    io.set_nonblocking(true)?;
    // Best effort: the sizes in force are read back below.
    let _ = io.set_recv_buffer_size(options.recv_buffer);
    let _ = io.set_send_buffer_size(options.send_buffer);
    io.bind(&SockAddr::from(address))?;
    let state = state_of(&io, address.is_ipv6())?;
    Ok((io, state))
}

/// A socket that the application has bound.
pub(in crate::socket) fn adopt(io: &Socket, options: &Options) -> io::Result<SocketState> {
    io.set_nonblocking(true)?;
    if io.recv_buffer_size()? < options.recv_buffer {
        let _ = io.set_recv_buffer_size(options.recv_buffer);
    }
    if io.send_buffer_size()? < options.send_buffer {
        let _ = io.set_send_buffer_size(options.send_buffer);
    }
    state_of(io, local_addr(io)?.is_ipv6())
}

fn state_of(io: &Socket, ipv6: bool) -> io::Result<SocketState> {
    Ok(SocketState {
        ipv6,
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
        let destination = SockAddr::from(for_family(out.destination, self.ipv6)?);
        let mut left = out.contents.len().div_ceil(segment).max(1);
        let whole = left;
        // An empty payload is still one datagram.
        for index in 0..whole {
            let start = index * segment;
            let end = out.contents.len().min(start + segment);
            self.counters.add(|stats| &mut stats.send_syscalls, 1);
            match io.send_to(&out.contents[start..end], &destination) {
                Ok(_) => self.counters.add(|stats| &mut stats.sent_datagrams, 1),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.counters.add(|stats| &mut stats.send_would_block, 1);
                    if left == whole {
                        return Err(error);
                    }
                    self.counters.add(|stats| &mut stats.send_drops, left);
                    return Ok(());
                }
                Err(error) => {
                    tracing::debug!(%error, destination = %out.destination, "datagram not sent");
                    self.counters.add(|stats| &mut stats.send_drops, 1);
                }
            }
            left -= 1;
        }
        Ok(())
    }

    pub(in crate::socket) fn recv(&self, io: &Socket, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.refill();
        for _ in 0..RECV_MESSAGES_MAX {
            // Only a message uses up a slot, so that both stay aligned.
            let slot = &mut batch.slots[batch.messages.len()];
            let (len, remote) = match io.recv_from(slot.spare_capacity_mut()) {
                Ok(received) => received,
                // Windows: the answer to a datagram sent earlier.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => continue,
                Err(error) if batch.messages.is_empty() => return Err(self.counters.recv_failed(error)),
                Err(_) => break,
            };
            self.counters.add(|stats| &mut stats.recv_syscalls, 1);
            let Some(remote) = remote.as_socket() else {
                self.counters.add(|stats| &mut stats.recv_unusable, 1);
                continue;
            };
            // SAFETY: the slot was empty, and the call has just initialised the first `len` bytes of its
            // spare room.
            unsafe { slot.set_len(len) };
            self.counters.add(|stats| &mut stats.received_datagrams, 1);
            batch.messages.push(KernelMessage { meta: RecvMeta::of(remote), stride: len });
        }
        Ok(batch.messages.len())
    }

    pub(in crate::socket) fn set_shared(&self, _: bool) {}

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
