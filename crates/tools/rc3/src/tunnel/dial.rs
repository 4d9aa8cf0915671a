//! TCP connections and UDP sockets to targets.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use super::{address::Target, allow::reachable, open::OpenAnswer};

/// Time limit for resolving a name, and for each connection attempt.
const PATIENCE: Duration = Duration::from_secs(15);

/// The addresses of a target that may be connected to.
async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, OpenAnswer> {
    let lookup = tokio::net::lookup_host((target.host(), target.port()));
    let found = timeout(PATIENCE, lookup).await.map_err(|_| OpenAnswer::NotFound)?;
    Ok(reachable(target, found.map_err(|_| OpenAnswer::NotFound)?))
}

/// A UDP socket of this host that is connected to a target: datagrams of others do not reach it.
pub(super) async fn dial_udp(target: &Target) -> Result<UdpSocket, OpenAnswer> {
    let mut last = OpenAnswer::NotFound;
    for address in resolve(target).await? {
        let local =
            if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let opened = UdpSocket::bind(SocketAddr::new(local, 0)).await;
        let connected = match opened {
            Ok(socket) => socket.connect(address).await.map(|()| socket),
            Err(error) => Err(error),
        };
        match connected {
            Ok(socket) => {
                // Until the runtime has seen that, sends without waiting fail.
                let _ = socket.writable().await;
                return Ok(socket);
            }
            Err(_) => last = OpenAnswer::Unreachable,
        }
    }
    Err(last)
}

/// Connects to a target.
pub(super) async fn dial(target: &Target) -> Result<TcpStream, OpenAnswer> {
    let mut last = OpenAnswer::NotFound;
    for address in resolve(target).await? {
        match attempt(address).await {
            Ok(stream) => return Ok(stream),
            Err(answer) => last = answer,
        }
    }
    Err(last)
}

async fn attempt(address: SocketAddr) -> Result<TcpStream, OpenAnswer> {
    let connected = timeout(PATIENCE, TcpStream::connect(address)).await.map_err(|_| OpenAnswer::TimedOut)?;
    let stream = connected.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => OpenAnswer::Refused,
        io::ErrorKind::TimedOut => OpenAnswer::TimedOut,
        _ => OpenAnswer::Unreachable,
    })?;
    // Keystrokes must not wait for an acknowledgment (RFC 896).
    let _ = stream.set_nodelay(true);
    Ok(stream)
}
