//! Two sockets on one port: which datagrams each gets.

use std::{io, net::SocketAddr};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    super::super::{Options, local_addr},
    State,
    options::{has_filter, in_other_namespace, set},
    prepare,
};

/// A second socket on the address of `primary` that gets datagrams that do not look like QUIC; `None` if there can be
/// none, or should not be.
///
/// Index = order of binding, so `primary` is 0 and the new one 1. `primary` was bound without `SO_REUSEPORT`, which
/// ensured that no other process had the port. It may still join a group afterwards, as its first member.
pub(in crate::socket) fn open_steered(
    primary: &Socket,
    options: &Options,
) -> io::Result<Option<(Socket, State)>> {
    let address = local_addr(primary)?;
    if let Some(obstacle) = obstacle(primary, address)? {
        tracing::debug!(obstacle, "no second socket, all levels share one");
        return Ok(None);
    }
    // Before there is a group, check whether it could be steered: an unsteered one would scatter datagrams.
    let probe = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    probe.set_reuse_port(true)?;
    attach_steering(&probe)?;

    let (io, state) = prepare(address, options)?;
    if let Err(error) = inherit(primary, &io, address.is_ipv6()) {
        tracing::debug!(%error, "no second socket with the settings of the first, all levels share one");
        return Ok(None);
    }
    io.set_reuse_port(true)?;
    primary.set_reuse_port(true)?;
    let joined = io.bind(&SockAddr::from(address)).and_then(|()| attach_steering(&io));
    if let Err(error) = joined {
        primary.set_reuse_port(false)?;
        return Err(error);
    }
    Ok(Some((io, state)))
}

/// Why a second socket would get datagrams that are meant for others, or none, or would send where the first may not.
/// A socket bound by this crate meets no obstacle; an application may have made another one.
fn obstacle(primary: &Socket, address: SocketAddr) -> io::Result<Option<&'static str>> {
    Ok(if address.port() == 0 {
        Some("the socket is not bound")
    } else if primary.reuse_port()? {
        // Its group may have other members, which the steering would cut off.
        Some("the application uses SO_REUSEPORT")
    } else if primary.peer_addr().is_ok() {
        // It gets all datagrams of its peer; those of others, which it refuses, would reach the second one.
        Some("the socket is connected")
    } else if has_filter(primary) {
        Some("the socket has a filter, which cannot be copied")
    } else if in_other_namespace(primary)? {
        Some("the socket is in another network namespace")
    } else {
        None
    })
}

/// Copies what decides where a socket's datagrams go, and from where they come.
fn inherit(primary: &Socket, io: &Socket, ipv6: bool) -> io::Result<()> {
    if let Some(device) = primary.device()? {
        io.bind_device(Some(&device))?;
    }
    // A mark needs privileges, so it is copied only if there is one.
    let mark = primary.mark()?;
    if mark != 0 {
        io.set_mark(mark)?;
    }
    if primary.freebind_v4()? {
        io.set_freebind_v4(true)?;
    }
    if primary.ip_transparent_v4()? {
        io.set_ip_transparent_v4(true)?;
    }
    if ipv6 {
        io.set_only_v6(primary.only_v6()?)?;
        if primary.freebind_v6()? {
            io.set_freebind_v6(true)?;
        }
        if primary.ip_transparent_v6()? {
            io.set_ip_transparent_v6(true)?;
        }
    }
    Ok(())
}

/// Steers a group: the QUIC fixed bit (RFC 9000 §17.2) set, or no payload at all, goes to member 0, else to
/// member 1.
fn attach_steering(io: &Socket) -> io::Result<()> {
    // The program sees the payload of the UDP datagram. A load beyond its end makes it return 0.
    let load_first_byte = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    let jump_if_set = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    let ret = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut program = [
        libc::sock_filter { code: load_first_byte, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: jump_if_set, jt: 0, jf: 1, k: 0x40 },
        libc::sock_filter { code: ret, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: ret, jt: 0, jf: 0, k: 1 },
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(io, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}
