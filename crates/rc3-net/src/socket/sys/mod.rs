//! The kernel, once per platform behind one interface; the crate's only unsafe code.
//!
//! Each platform offers `open`, `adopt`, `open_steered`, `open_group`, `queued_bytes`, a `SocketState` with `send`, `recv`,
//! `segments_max`, `capabilities`, `set_shared` and `stats`, and the error codes `UNUSABLE`; Linux also `receive` for the sockets of another process, and
//! the `Scratch` memory that its `recv` needs.

#[cfg(target_os = "linux")]
mod cmsg;
#[cfg(target_os = "linux")]
mod leading;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod packet_socket;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(all(test, target_os = "linux"))]
pub(crate) use linux::{Calls, InjectedError};
#[cfg(target_os = "linux")]
pub(super) use linux::{
    Scratch, SocketState, UNUSABLE, adopt, open, open_group, open_steered, queued_bytes, receive,
};

#[cfg(not(target_os = "linux"))]
mod fallback;
#[cfg(not(target_os = "linux"))]
pub(super) use fallback::{SocketState, UNUSABLE, adopt, open, open_group, open_steered, queued_bytes};
