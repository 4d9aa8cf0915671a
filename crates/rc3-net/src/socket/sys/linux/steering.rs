//! Several sockets on one port: which datagrams each gets. One worker has two; several workers have two each.

use std::{io, net::SocketAddr};

use rc3_core::WorkerHash;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    super::super::{Options, local_addr},
    SocketState,
    options::{has_filter, in_other_namespace, set},
    prepare,
    program::{by_first_byte, by_worker},
};

/// A second socket on the address of `primary` that gets datagrams that do not look like QUIC; `None` if there can be
/// none, or should not be.
///
/// Index = order of binding, so `primary` is 0 and the new one 1. `primary` was bound without `SO_REUSEPORT`, which
/// ensured that no other process had the port. It may still join a group afterwards, as its first member.
pub(in crate::socket) fn open_steered(
    primary: &Socket,
    options: &Options,
) -> io::Result<Option<(Socket, SocketState)>> {
    let address = local_addr(primary)?;
    if let Some(obstacle) = obstacle(primary, address)? {
        tracing::debug!(obstacle, "no second socket, all levels share one");
        return Ok(None);
    }
    let mut program = by_first_byte();
    check_steering(address, &mut program)?;
    Ok(join(primary, address, options, 1, &mut program)?.pop())
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
fn copy_routing(primary: &Socket, io: &Socket, ipv6: bool) -> io::Result<()> {
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

/// More sockets on the address of `primary`, so that each worker has two: the low one of worker 0, then both of each
/// further worker. Unlike [`open_steered`] there is no way without them.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] if the kernel cannot steer, or should not; its text says why.
pub(in crate::socket) fn open_group(
    primary: &Socket,
    options: &Options,
    hash: &WorkerHash,
) -> io::Result<Vec<(Socket, SocketState)>> {
    let address = local_addr(primary)?;
    if let Some(obstacle) = obstacle(primary, address)? {
        return Err(unsupported(obstacle));
    }
    let mut program = by_worker(hash);
    check_steering(address, &mut program)
        .map_err(|error| unsupported(&format!("the kernel cannot steer datagrams by a program: {error}")))?;
    join(primary, address, options, 2 * hash.workers() - 1, &mut program)
}

/// `count` sockets with the settings of `primary` on its `address`, in a group that `program` steers.
fn join(
    primary: &Socket,
    address: SocketAddr,
    options: &Options,
    count: usize,
    program: &mut [libc::sock_filter],
) -> io::Result<Vec<(Socket, SocketState)>> {
    let mut sockets = Vec::new();
    for _ in 0..count {
        let (io, state) = prepare(address, options)?;
        copy_routing(primary, &io, address.is_ipv6())?;
        io.set_reuse_port(true)?;
        sockets.push((io, state));
    }
    primary.set_reuse_port(true)?;
    let joined = sockets.iter().try_for_each(|(io, _)| io.bind(&SockAddr::from(address)));
    if let Err(error) = joined.and_then(|()| attach(primary, program)) {
        primary.set_reuse_port(false)?;
        return Err(error);
    }
    Ok(sockets)
}

fn unsupported(cause: &str) -> io::Error {
    let text = format!("several workers need sockets that the kernel steers, use one worker: {cause}");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Whether the kernel takes the program. An unsteered group would scatter datagrams, so this comes before there is one.
fn check_steering(address: SocketAddr, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let probe = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    probe.set_reuse_port(true)?;
    attach(&probe, program)
}

/// Steers the group of a socket.
fn attach(io: &Socket, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(io, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}
