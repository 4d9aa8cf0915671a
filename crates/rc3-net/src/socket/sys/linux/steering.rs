//! Two sockets on one port: which datagrams each gets.

use std::io;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    super::super::{Options, local_addr},
    State,
    options::set,
    prepare,
};

/// A second socket on the address of `primary` that gets datagrams that do not look like QUIC.
///
/// Index = order of binding, so `primary` is 0 and the new one 1. `primary` was bound without `SO_REUSEPORT`, which
/// ensured that no other process had the port. It may still join a group afterwards, as its first member.
pub(in crate::socket) fn open_steered(
    primary: &Socket,
    options: &Options,
) -> io::Result<Option<(Socket, State)>> {
    let address = local_addr(primary)?;
    // Before there is a group, check whether it could be steered: an unsteered one would scatter datagrams.
    let probe = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    probe.set_reuse_port(true)?;
    attach_steering(&probe)?;

    let (io, state) = prepare(address, options)?;
    io.set_reuse_port(true)?;
    primary.set_reuse_port(true)?;
    let joined = io.bind(&SockAddr::from(address)).and_then(|()| attach_steering(&io));
    if let Err(error) = joined {
        primary.set_reuse_port(false)?;
        return Err(error);
    }
    Ok(Some((io, state)))
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
