//! `rc3 tunnel`: TCP connections and UDP flows through one rc3 connection between two hosts.
//!
//! [`serve`] listens, [`connect`] reaches it and proves both identities, [`client`] opens what the command line asks for.
//! Each TCP connection is one bidirectional stream: it begins with an [`open`] message and carries raw bytes after it
//! (`relay`). A UDP flow has one as well (`flows`). [`attained`] decides which streams go first. The control stream ([`control`]) authenticates and requests
//! remote listeners. docs/TUNNEL.md describes messages and files.

use rc3_net::VarInt;

use crate::{error::Error, system::Stop, transfer::stopped_by};

pub mod address;
pub mod allow;
pub mod attained;
pub mod client;
pub mod connect;
pub mod control;
mod dial;
pub mod files;
mod flows;
mod http_connect;
mod local;
mod notes;
pub mod open;
pub mod proxy;
mod relay;
pub mod remote;
pub mod serve;
mod socks;
mod transport;
mod udp;

/// Application protocol name on the connection.
pub const ALPN: &[u8] = b"rc3-tunnel/1";
/// The UDP port to listen on by default.
pub const PORT: u16 = 4433;
/// Most TCP connections that each side of a tunnel may have open at once.
pub const CONNECTIONS_MAX: u32 = 1024;
/// Most UDP flows that each side of a tunnel may have at once.
pub const FLOWS_MAX: u32 = 256;
/// Most remote listeners of one peer.
pub const LISTENERS_MAX: usize = 16;

/// Close code: done.
const DONE: VarInt = VarInt::from_u32(0);
/// The error of a tunnel that the user interrupts; `stop` is how.
async fn stopped(stop: &mut Stop) -> Error {
    *stop = stopped_by().await;
    Error::interrupted(0).hinted("run it again to continue; TCP connections through the tunnel have ended")
}

/// Reset and stop code of a stream whose TCP connection broke.
const BROKEN: VarInt = VarInt::from_u32(1);
