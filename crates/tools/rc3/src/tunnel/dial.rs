//! TCP connections and UDP sockets to targets.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use super::{address::Target, allow::reachable, open::OpenAnswer};
use crate::transfer::reachable::unspecified;

/// Time limit for resolving a name, and for each connection attempt.
const PATIENCE: Duration = Duration::from_secs(15);

/// The addresses of a target that may be connected to.
async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, OpenAnswer> {
    let lookup = tokio::net::lookup_host((target.host(), target.port()));
    let found = timeout(PATIENCE, lookup).await.map_err(|_| OpenAnswer::NotFound)?;
    Ok(reachable(target, found.map_err(|_| OpenAnswer::NotFound)?))
}

/// The first of a target's addresses with which this succeeds.
async fn first<T, F: Future<Output = Result<T, OpenAnswer>>>(
    target: &Target,
    dial: impl Fn(SocketAddr) -> F,
) -> Result<T, OpenAnswer> {
    let mut last = OpenAnswer::NotFound;
    for address in resolve(target).await? {
        match dial(address).await {
            Ok(dialled) => return Ok(dialled),
            Err(answer) => last = answer,
        }
    }
    Err(last)
}

/// A UDP socket of this host that is connected to a target: datagrams of others do not reach it.
pub(super) async fn dial_udp(target: &Target) -> Result<UdpSocket, OpenAnswer> {
    let open = |address| async move {
        let socket = UdpSocket::bind((unspecified(address), 0)).await?;
        socket.connect(address).await?;
        // Until the runtime has seen that, sends without waiting fail.
        let _ = socket.writable().await;
        io::Result::Ok(socket)
    };
    first(target, |address| async move { open(address).await.map_err(|_| OpenAnswer::Unreachable) }).await
}

/// Connects to a target.
pub(super) async fn dial(target: &Target) -> Result<TcpStream, OpenAnswer> {
    first(target, attempt).await
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
