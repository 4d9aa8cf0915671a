//! A packet socket that sees leading IPv4 fragments of UDP datagrams to one port, before the IP stack does.

use std::io::{self, Read};

use libc::c_int;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::{
    leading::{IPV4_HEADER_MAX, START_MAX, UDP_HEADER},
    options::set,
};

/// Bytes stored of each fragment.
pub(super) const SNAP: usize = IPV4_HEADER_MAX + UDP_HEADER + START_MAX;

/// Requested buffer; each fragment uses as much as the card allocated for it.
const RECV_BUFFER: usize = 1 << 20;

/// More packets than the buffer holds.
const UNFILTERED_MAX: usize = RECV_BUFFER / 256;

/// Opens one, on all interfaces: an address is reachable by any of them, and may move.
///
/// It uses all protocols instead of IPv4. The kernel passes a packet to such sockets before the IP stack, but to
/// sockets for one protocol afterwards (seen on 6.18), which makes the IP stack copy the header of every packet.
///
/// # Errors
/// `EPERM` without `CAP_NET_RAW`; in a sandbox possibly another error.
pub(super) fn open(port: u16) -> io::Result<Socket> {
    let everything = Protocol::from(c_int::from((libc::ETH_P_ALL as u16).to_be()));
    let mut io = Socket::new(Domain::PACKET, Type::DGRAM, Some(everything))?;
    io.set_nonblocking(true)?;
    // Less is enough.
    let _ = io.set_recv_buffer_size(RECV_BUFFER);
    io.attach_filter(&filter(port))?;
    // Anyone who gets hold of the descriptor later sees no more than this process does.
    set(&io, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1)?;
    // Since Linux 4.20; before, the filter also sees sent packets.
    let _ = set(&io, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
    // What arrived before the filter was in place.
    for _ in 0..UNFILTERED_MAX {
        if io.read(&mut [0]).is_err() {
            break;
        }
    }
    Ok(io)
}

/// Accepts packets to this host that are IPv4 and UDP, with more fragments, offset 0, and to `port`. Most packets are
/// rejected by the third test.
fn filter(port: u16) -> [SockFilter; 14] {
    const UDP: u32 = 17;
    // A load beyond the end of the packet rejects it.
    let load = |size: u32, mode: u32, at: u32| SockFilter::new((libc::BPF_LD | size | mode) as u16, 0, 0, at);
    let extension = |which: c_int| (libc::SKF_AD_OFF + which) as u32;
    // To the next instruction if equal, else over as many as there are to the rejection.
    let jump_equal = |value: u32, over: u8| {
        SockFilter::new((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, 0, over, value)
    };
    let and = |mask: u32| SockFilter::new((libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16, 0, 0, mask);
    let header_len = SockFilter::new((libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16, 0, 0, 0);
    let ret = |len: u32| SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, len);
    [
        load(libc::BPF_H, libc::BPF_ABS, extension(libc::SKF_AD_PROTOCOL)),
        jump_equal(libc::ETH_P_IP as u32, 11),
        load(libc::BPF_H, libc::BPF_ABS, 6),
        and(0x3fff),
        jump_equal(0x2000, 8),
        load(libc::BPF_B, libc::BPF_ABS, 9),
        jump_equal(UDP, 6),
        header_len,
        load(libc::BPF_H, libc::BPF_IND, 2),
        jump_equal(port.into(), 3),
        load(libc::BPF_H, libc::BPF_ABS, extension(libc::SKF_AD_PKTTYPE)),
        jump_equal(libc::PACKET_HOST.into(), 1),
        ret(SNAP as u32),
        ret(0),
    ]
}
