//! The kernel, once per platform behind one interface; the crate's only unsafe code.
//!
//! Each platform offers `open`, `adopt`, `open_steered`, `open_group`, `queued_bytes`, a `SocketState` with `send`, `recv`,
//! `may_fragment`, `segments_max`, `capabilities`, `set_shared` and `stats`, and the `Scratch` memory that `recv` needs; Linux
//! also `receive` for the sockets of another process. With `--cfg rc3_portable`, Linux is treated as any other system, for
//! tests (`.ci/portable`).

#[cfg(all(target_os = "linux", not(rc3_portable)))]
mod linux;
#[cfg(all(test, target_os = "linux", not(rc3_portable)))]
pub(crate) use linux::{Calls, InjectedError};
#[cfg(all(target_os = "linux", not(rc3_portable)))]
pub(super) use linux::{Scratch, SocketState, adopt, open, open_group, open_steered, queued_bytes, receive};

#[cfg(any(not(target_os = "linux"), rc3_portable))]
mod fallback;
#[cfg(any(not(target_os = "linux"), rc3_portable))]
pub(super) use fallback::{Scratch, SocketState, adopt, open, open_group, open_steered, queued_bytes};

/// Errors after which a socket is unusable; no network causes them.
#[cfg(unix)]
pub(super) const UNUSABLE: [i32; 4] = {
    use rustix::io::Errno;
    [
        Errno::BADF.raw_os_error(),
        Errno::NOTSOCK.raw_os_error(),
        Errno::FAULT.raw_os_error(),
        Errno::OPNOTSUPP.raw_os_error(),
    ]
};
/// `WSAENOTSOCK`, `WSAEFAULT` and `WSAEOPNOTSUPP`.
#[cfg(not(unix))]
pub(super) const UNUSABLE: [i32; 3] = [10_038, 10_014, 10_045];
