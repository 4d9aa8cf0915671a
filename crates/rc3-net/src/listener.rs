//! Accepts [`Stream`]s: the drop-in for `tokio::net::TcpListener`.

use std::{io, net::SocketAddr, time::Duration};

use rc3_core::ServerConfig;
use tokio::{
    sync::{Mutex, mpsc},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    endpoint::Endpoint,
    incoming::Incoming,
    slots::Slots,
    stream::{HELLO, Stream},
};

/// Most peers between their first packet and the hello of their stream; see [`Slots`].
const PENDING_MAX: usize = 1_024;

/// Streams that wait to be accepted, like the backlog of a TCP socket.
const BACKLOG: usize = 128;

/// Time from a peer's first packet to the hello of its stream.
const PATIENCE: Duration = Duration::from_secs(10);

/// A port on which peers open [`Stream`]s.
///
/// Handshakes run concurrently with each other and with [`Self::accept`]. After a drop, it accepts no more; accepted
/// streams continue.
///
/// ```
/// use rc3_net::Listener;
/// use tokio::io::AsyncWriteExt;
/// # use rc3_net::{Endpoint, Stream};
/// # use tokio::io::AsyncReadExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (client_config, server_config) = rc3_sim::identity::identity(&["example"]);
/// let listener = Listener::bind(server_config, "127.0.0.1:0".parse()?)?;
/// let addr = listener.local_addr()?;
/// tokio::spawn(async move {
///     while let Ok((mut stream, peer)) = listener.accept().await {
///         // One task for each peer; the server may send first.
///         tokio::spawn(async move { stream.write_all(format!("hello {}", peer.ip()).as_bytes()).await });
///     }
/// });
/// # let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
/// # endpoint.set_default_client_config(client_config);
/// # let mut greeting = String::new();
/// # Stream::connect(&endpoint, addr, "rc3.test").await?.read_to_string(&mut greeting).await?;
/// # assert_eq!(greeting, "hello 127.0.0.1");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    streams: Mutex<mpsc::Receiver<Stream>>,
    task: JoinHandle<()>,
}

impl Listener {
    /// Listens on `addr`.
    ///
    /// # Errors
    /// As [`Endpoint::server`].
    ///
    /// # Panics
    /// Outside a tokio runtime, or in one without I/O or time.
    pub fn bind(config: ServerConfig, addr: SocketAddr) -> io::Result<Self> {
        Ok(Self::new(Endpoint::server(config, addr)?))
    }

    /// Accepts streams on an endpoint; all of its connections then belong to the listener.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(endpoint: Endpoint) -> Self {
        let (sender, streams) = mpsc::channel(BACKLOG);
        let pending = Slots::new(PENDING_MAX, PENDING_MAX);
        let task = tokio::spawn(accept_all(endpoint.clone(), pending, sender));
        Self { endpoint, streams: Mutex::new(streams), task }
    }

    /// The next stream and its peer's address. Several tasks may accept at once; for a `futures::Stream`, unfold the
    /// listener.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] once the endpoint is closed or handed over. If it takes its port back
    /// ([`Endpoint::hand_over`]), make another listener of [`Self::endpoint`].
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let stream = self.streams.lock().await.recv().await;
        let stream = stream.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "endpoint closed"))?;
        let peer = stream.peer_addr()?;
        Ok((stream, peer))
    }

    /// The bound address.
    ///
    /// # Errors
    /// An [`io::Error`] if the system cannot report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// The underlying endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept_all(endpoint: Endpoint, pending: Slots, sender: mpsc::Sender<Stream>) {
    while let Some(incoming) = endpoint.accept().await {
        let Some((incoming, mut slot)) = pending.admit(incoming) else { continue };
        let (sender, local_addr) = (sender.clone(), endpoint.local_addr());
        tokio::spawn(async move {
            let streaming = async {
                match timeout(PATIENCE, greet(incoming, local_addr)).await {
                    // Fails when the listener is gone; then the stream is dropped.
                    Ok(Ok(stream)) => drop(sender.send(stream).await),
                    Ok(Err(error)) => tracing::debug!(%error, "no stream"),
                    Err(_) => tracing::debug!("no stream in time"),
                }
            };
            if slot.run(streaming).await.is_none() {
                tracing::debug!("another peer needed the slot");
            }
        });
    }
}

async fn greet(incoming: Incoming, local_addr: io::Result<SocketAddr>) -> io::Result<Stream> {
    let connection = incoming.await?;
    let (send, mut recv) = connection.accept_bi().await?;
    let mut hello = [0];
    recv.read_exact(&mut hello).await?;
    if hello != [HELLO] {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not the hello of a stream"));
    }
    Ok(Stream::new(local_addr?, connection, send, recv))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rc3_sim::identity::{SERVER_NAME, identity};

    #[tokio::test]
    async fn silent_peers_of_one_address_lock_nobody_out() {
        let (client_config, server_config) = identity(&["test"]);
        let server = Endpoint::server(server_config, ([127, 0, 0, 1], 0).into()).unwrap();
        let address = server.local_addr().unwrap();
        let (sender, mut streams) = mpsc::channel(BACKLOG);
        let task = tokio::spawn(accept_all(server.clone(), Slots::new(3, 3), sender));
        let client = |host| {
            let mut client = Endpoint::client(SocketAddr::from((host, 0))).unwrap();
            client.set_default_client_config(client_config.clone());
            client
        };
        let silent = client([127, 0, 0, 1]);
        let mut silence = Vec::new();
        for _ in 0..6 {
            silence.push(silent.connect(address, SERVER_NAME).unwrap().await.expect("the oldest gives way"));
        }
        let other = client([127, 0, 0, 2]);
        let connecting = tokio::spawn(async move { Stream::connect(&other, address, SERVER_NAME).await });
        let stream = timeout(PATIENCE / 2, streams.recv()).await.expect("nobody is locked out");
        assert!(stream.is_some() && connecting.await.unwrap().is_ok());
        task.abort();
    }
}
