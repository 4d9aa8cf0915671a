//! Options of sockets, and what the kernel reports about them.

use std::{io, os::fd::AsRawFd, sync::Once};

use libc::c_int;
use socket2::{Domain, Socket, Type};

/// From asm-generic/socket.h; libc does not have it for every target.
const SO_NETNS_COOKIE: c_int = 71;

/// The kernel doubles what it grants and does not report it when that is less than requested.
pub(super) fn warn_if_capped(once: &Once, sysctl: &str, asked: usize, in_force: usize) {
    let granted = in_force / 2;
    if granted < asked {
        once.call_once(|| {
            tracing::warn!(
                asked,
                granted,
                "socket buffer below the requested size, run sysctl -w {sysctl}={asked}"
            );
        });
    }
}

/// Sets `SO_PRIORITY` for the whole socket.
pub(super) fn set_priority(io: &Socket, priority: u32) -> io::Result<()> {
    set(io, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
}

/// Values that may be passed to `setsockopt` as they lie in memory.
///
/// # Safety
/// The type is plain data without padding that the kernel would read, and pointers in it stay valid for the
/// call.
pub(super) unsafe trait OptionValue {}
// SAFETY: a number.
unsafe impl OptionValue for c_int {}
// SAFETY: a number.
unsafe impl OptionValue for u32 {}
// SAFETY: `repr(C)`; the kernel reads the two fields, not the padding, and copies what `filter` points to.
// The one caller keeps the array alive.
unsafe impl OptionValue for libc::sock_fprog {}

pub(super) fn set<T: OptionValue>(io: &Socket, level: c_int, name: c_int, value: T) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `io` is borrowed; pointer and length describe `value`, which
    // lives to the end of this function, and `OptionValue` vouches for its contents.
    let result = unsafe {
        libc::setsockopt(
            io.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `SIOCOUTQ`: memory of sent datagrams not yet freed by the card.
pub(in crate::socket) fn queued_bytes(io: &Socket) -> usize {
    let mut bytes: c_int = 0;
    // SAFETY: the descriptor is open as long as `io` is borrowed; TIOCOUTQ (= SIOCOUTQ) writes one int
    // through the pointer, which is valid for that.
    let result = unsafe { libc::ioctl(io.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if result == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// An option of `SOL_SOCKET` as numbers, zeros where the kernel knows fewer, and the length that it reports.
fn get<const N: usize>(io: &Socket, name: c_int) -> io::Result<([u32; N], usize)> {
    let mut values = [0; N];
    let mut len = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `io` is borrowed; the kernel writes at most `len` bytes, which is the
    // size of `values`, and any bytes make valid numbers.
    let result = unsafe {
        libc::getsockopt(io.as_raw_fd(), libc::SOL_SOCKET, name, values.as_mut_ptr().cast(), &mut len)
    };
    if result == 0 { Ok((values, len as usize)) } else { Err(io::Error::last_os_error()) }
}

/// Datagrams dropped because the receive buffer was full, from `SO_MEMINFO` (include/uapi/linux/sock_diag.h).
pub(super) fn overflows(io: &Socket) -> u32 {
    const DROPS: usize = 8;
    get::<{ DROPS + 1 }>(io, libc::SO_MEMINFO).map_or(0, |(values, _)| values[DROPS])
}

/// Whether a packet filter is attached (`SO_ATTACH_FILTER`, `SO_ATTACH_BPF`).
pub(super) fn has_filter(io: &Socket) -> bool {
    // Without a filter the call succeeds with length 0; an eBPF program cannot be read.
    !matches!(get::<0>(io, libc::SO_GET_FILTER), Ok((_, 0)))
}

/// Whether the socket belongs to another network namespace than new sockets of this thread do.
pub(super) fn in_other_namespace(io: &Socket) -> io::Result<bool> {
    let new = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    Ok(namespace(io) != namespace(&new))
}

/// The kernel's number for the network namespace of a socket; `None` before Linux 5.14.
fn namespace(io: &Socket) -> Option<[u32; 2]> {
    get(io, SO_NETNS_COOKIE).ok().map(|(number, _)| number)
}
