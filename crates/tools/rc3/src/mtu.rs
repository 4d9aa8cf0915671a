//! Conversion between lengths of IP packets, which users give, and of UDP payloads, which the transport uses.

use std::net::SocketAddr;

/// Bytes of the IP and UDP headers of packets to this address.
fn headers(remote: SocketAddr) -> u16 {
    if remote.ip().to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 }
}

/// The UDP payload in bytes that makes packets of `mtu` bytes.
pub(crate) fn payload(mtu: u16, remote: SocketAddr) -> u16 {
    mtu.saturating_sub(headers(remote))
}
