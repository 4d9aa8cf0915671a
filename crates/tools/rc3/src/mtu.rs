//! Conversion between lengths of IP packets, which users give, and of UDP payloads, which the transport uses.

use std::net::SocketAddr;

/// The UDP payload in bytes that makes packets of `mtu` bytes to this address.
pub(crate) fn payload(mtu: u16, remote: SocketAddr) -> u16 {
    let headers = if remote.ip().to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 };
    mtu.saturating_sub(headers)
}
