//! Linux: marks, segmentation offload and steering by control messages and socket options.
//!
//! Owns the state of a socket; the rules for refused calls are beside the calls. Numbers were measured on Linux 6.18;
//! the names of the options are those of ip(7), ipv6(7), udp(7) and socket(7).

mod cmsg;
mod leading;
mod options;
mod packet_socket;
mod program;
mod receive;
mod send;
mod stamp;
mod steering;
mod watch;

use std::{
    io,
    net::SocketAddr,
    sync::{
        Mutex, Once, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use libc::c_int;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

#[cfg(test)]
pub(crate) use self::send::{Calls, InjectedError};
pub(in crate::socket) use self::{
    options::queued_bytes,
    receive::Scratch,
    steering::{open_group, open_steered},
};
use self::{
    options::{overflows, set, warn_if_capped},
    send::{SocketMarks, knows_priority_cmsg},
    watch::FragmentWatch,
};
use super::super::{Capabilities, MAX_GSO_SEGMENTS, Options, Stats, local_addr, stats::Counters};
use crate::marks::PRIORITY_FILLER;

/// The longest fragment of a received datagram, from linux/in.h and linux/in6.h; libc does not have them.
const IP_RECVFRAGSIZE: c_int = 25;
const IPV6_RECVFRAGSIZE: c_int = 77;

/// The state of a socket besides its descriptor.
#[derive(Debug)]
pub(in crate::socket) struct SocketState {
    ipv6: bool,
    gro: bool,
    /// Whether the kernel stamps messages.
    timestamps: bool,
    /// Changes only from true to false.
    gso: AtomicBool,
    /// Changes only from true to false: the kernel does not know the control message.
    priority_cmsg: AtomicBool,
    /// Priorities from here up were refused for lack of privilege. Only decreases.
    priority_end: AtomicU64,
    /// The marks set on the socket itself, if any.
    socket_marks: Mutex<Option<SocketMarks>>,
    /// Whether the socket sets DF, for which there is no control message. Held while it is changed and a datagram sent.
    dont_fragment: Mutex<bool>,
    /// Another process sends by the same socket, so what was set on it may have changed.
    shared: AtomicBool,
    /// Held while datagrams received in fragments are processed.
    watch: Mutex<FragmentWatch>,
    recv_buffer: usize,
    send_buffer: usize,
    counters: Counters,
    #[cfg(test)]
    faults: Mutex<Vec<InjectedError>>,
}

/// A socket bound alone.
pub(in crate::socket) fn open(address: SocketAddr, options: &Options) -> io::Result<(Socket, SocketState)> {
    let (io, mut state) = prepare(address, options)?;
    io.bind(&SockAddr::from(address))?;
    state.watch_fragments(local_addr(&io)?, options);
    Ok((io, state))
}

/// A socket that the application has bound.
pub(in crate::socket) fn adopt(io: &Socket, options: &Options) -> io::Result<SocketState> {
    let address = local_addr(io)?;
    if io.r#type()? != Type::DGRAM {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a UDP socket"));
    }
    if io.recv_buffer_size()? < 2 * options.recv_buffer {
        request_recv_buffer(io, options.recv_buffer)?;
    }
    if io.send_buffer_size()? < 2 * options.send_buffer {
        request_send_buffer(io, options.send_buffer)?;
    }
    let mut state = configure(io, address, options)?;
    state.watch_fragments(address, options);
    Ok(state)
}

/// A socket that another process has bound, and sent.
pub(in crate::socket) fn receive(io: &Socket, options: &Options) -> io::Result<SocketState> {
    let is_udp = matches!(io.protocol(), Ok(Some(Protocol::UDP)));
    if !is_udp || !local_addr(io).is_ok_and(|address| address.port() != 0) {
        let text = "the other process sent something else than a bound UDP socket";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    adopt(io, options)
}

impl SocketState {
    /// The state of a socket without options set.
    fn bare(ipv6: bool) -> Self {
        Self {
            ipv6,
            gro: false,
            timestamps: false,
            gso: AtomicBool::new(false),
            priority_cmsg: AtomicBool::new(true),
            priority_end: AtomicU64::new(u64::MAX),
            socket_marks: Mutex::new(None),
            dont_fragment: Mutex::new(true),
            shared: AtomicBool::new(false),
            watch: Mutex::new(FragmentWatch::Blind),
            recv_buffer: 0,
            send_buffer: 0,
            counters: Counters::default(),
            #[cfg(test)]
            faults: Mutex::default(),
        }
    }

    /// Starts to watch leading fragments of datagrams to the bound `address`, if the kernel reports any.
    fn watch_fragments(&mut self, address: SocketAddr, options: &Options) {
        let watch = self.watch.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let FragmentWatch::Concluding = watch
            && takes_ipv4(address)
        {
            *watch = FragmentWatch::new(address.port(), options.packet_socket);
        }
    }

    /// Whether another process sends by the same socket.
    pub(in crate::socket) fn set_shared(&self, shared: bool) {
        self.shared.store(shared, Relaxed);
    }

    /// Only if the kernel is set up for it.
    pub(in crate::socket) fn may_fragment(&self) -> bool {
        false
    }

    /// Only [`Capabilities::gso_segments_max`], which each batch needs.
    pub(in crate::socket) fn segments_max(&self) -> usize {
        if self.gso.load(Relaxed) { MAX_GSO_SEGMENTS } else { 1 }
    }

    pub(in crate::socket) fn capabilities(&self) -> Capabilities {
        Capabilities {
            gso_segments_max: self.segments_max(),
            gro: self.gro,
            dscp: true,
            so_priority: self.priority_end.load(Relaxed) > u64::from(PRIORITY_FILLER),
            priority_cmsg: self.priority_cmsg.load(Relaxed),
            timestamps: self.timestamps,
            leading_lens: self.watch.lock().unwrap_or_else(PoisonError::into_inner).leading_lens(),
            recv_buffer: self.recv_buffer,
            send_buffer: self.send_buffer,
        }
    }

    pub(in crate::socket) fn stats(&self, io: &Socket) -> Stats {
        self.counters.snapshot(u64::from(overflows(io)))
    }
}

/// A socket with all options set, not yet bound.
fn prepare(address: SocketAddr, options: &Options) -> io::Result<(Socket, SocketState)> {
    let io = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        io.set_only_v6(false)?;
    }
    request_recv_buffer(&io, options.recv_buffer)?;
    request_send_buffer(&io, options.send_buffer)?;
    let state = configure(&io, address, options)?;
    Ok((io, state))
}

fn request_recv_buffer(io: &Socket, bytes: usize) -> io::Result<()> {
    static CAPPED: Once = Once::new();
    io.set_recv_buffer_size(bytes)?;
    warn_if_capped(&CAPPED, "net.core.rmem_max", bytes, io.recv_buffer_size()?);
    Ok(())
}

fn request_send_buffer(io: &Socket, bytes: usize) -> io::Result<()> {
    static CAPPED: Once = Once::new();
    io.set_send_buffer_size(bytes)?;
    warn_if_capped(&CAPPED, "net.core.wmem_max", bytes, io.send_buffer_size()?);
    Ok(())
}

/// Sets all options that do not depend on whether the socket is bound.
fn configure(io: &Socket, address: SocketAddr, options: &Options) -> io::Result<SocketState> {
    let ipv6 = address.is_ipv6();
    io.set_nonblocking(true)?;
    // Options of IPv4 apply to the IPv4 side of a dual-stack socket. DF is set except on fragmentable datagrams, and
    // the kernel does not store the path's MTU: the primary loop probes for it (RFC 9000 §14.3).
    set(io, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
    set(io, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
    set(io, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    // Since Linux 4.13; without it signals of routers are not seen. The first bound socket watches leading fragments,
    // because most of them belong to it.
    let mut reports_longest = takes_ipv4(address) && set(io, libc::IPPROTO_IP, IP_RECVFRAGSIZE, 1).is_ok();
    if ipv6 {
        reports_longest |= set(io, libc::IPPROTO_IPV6, IPV6_RECVFRAGSIZE, 1).is_ok();
        set(io, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        set(io, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        set(io, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    }
    let gro = options.gro && set(io, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
    // Refused by some sandboxes; then the time of reading counts.
    let timestamps = set(io, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1).is_ok();
    // Zero is the default; the call only shows whether the kernel knows the option (4.18 and later).
    let gso = options.gso && set(io, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();

    Ok(SocketState {
        gro,
        timestamps,
        gso: AtomicBool::new(gso),
        priority_cmsg: AtomicBool::new(options.priority_cmsg && knows_priority_cmsg()),
        watch: Mutex::new(if reports_longest { FragmentWatch::Concluding } else { FragmentWatch::Blind }),
        recv_buffer: io.recv_buffer_size()?,
        send_buffer: io.send_buffer_size()?,
        ..SocketState::bare(ipv6)
    })
}

/// Whether a socket bound to `address` gets datagrams over IPv4.
fn takes_ipv4(address: SocketAddr) -> bool {
    address.ip().is_unspecified() || address.ip().to_canonical().is_ipv4()
}
