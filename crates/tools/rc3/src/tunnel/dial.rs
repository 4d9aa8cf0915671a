//! TCP connections to targets.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{net::TcpStream, time::timeout};

use super::{address::Target, allow::reachable, open::OpenAnswer};

/// Time limit for resolving a name, and for each connection attempt.
const PATIENCE: Duration = Duration::from_secs(15);

/// Connects to a target.
pub(super) async fn dial(target: &Target) -> Result<TcpStream, OpenAnswer> {
    let lookup = tokio::net::lookup_host((target.host(), target.port()));
    let found = timeout(PATIENCE, lookup)
        .await
        .map_err(|_| OpenAnswer::NotFound)?
        .map_err(|_| OpenAnswer::NotFound)?;
    let mut last = OpenAnswer::NotFound;
    for address in reachable(target, found) {
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
