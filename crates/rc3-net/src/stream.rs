//! One duplex stream on a connection of its own: the drop-in for `tokio::net::TcpStream`.
//!
//! A QUIC stream is invisible to the peer until something is sent on it, so a protocol in which the server sends first
//! would wait forever. A [`Stream`] therefore starts with one byte, [`HELLO`], which [`crate::Listener`] removes. It is
//! in the first flight of data and costs no time.

use std::{
    fmt,
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use rc3_core::VarInt;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::JoinSet,
};

use crate::{
    connection_handle::Connection, endpoint::Endpoint, error::ConnectError, recv_stream::RecvStream,
    send_stream::SendStream,
};

/// Time from one attempt to connect to the next (RFC 8305 §8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The first byte of the stream, from the side that connects.
pub const HELLO: u8 = 0;

/// A byte stream in both directions. Its connection carries nothing else.
///
/// `shutdown` ends only the sending direction; the other continues. Dropping the stream ends both: written bytes are
/// still delivered in the background before the connection closes with code 0, and later bytes from the peer are
/// refused.
///
/// ```
/// use rc3_net::{Endpoint, Listener, Stream};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (client_config, server_config) = rc3_sim::identity::identity(&["example"]);
/// let listener = Listener::bind(server_config, "127.0.0.1:0".parse()?)?;
/// let server = listener.local_addr()?;
/// tokio::spawn(async move {
///     let (mut stream, _) = listener.accept().await?;
///     let mut question = String::new();
///     stream.read_to_string(&mut question).await?;
///     stream.write_all(question.to_uppercase().as_bytes()).await?;
///     stream.close().await
/// });
///
/// let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
/// endpoint.set_default_client_config(client_config);
/// let mut stream = Stream::connect(&endpoint, server, "rc3.test").await?;
/// stream.write_all(b"hello").await?;
/// stream.shutdown().await?;
/// let mut answer = String::new();
/// stream.read_to_string(&mut answer).await?;
/// assert_eq!(answer, "HELLO");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Stream {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
}

impl Stream {
    /// Connects to the [`crate::Listener`] at `addr`, whose certificate must name `server_name`, with the default
    /// settings of `endpoint`.
    ///
    /// # Errors
    /// An [`io::Error`] that contains a [`ConnectError`](crate::ConnectError) if the connection could not be tried, or a
    /// [`ConnectionError`](crate::ConnectionError) if the handshake failed.
    pub async fn connect(endpoint: &Endpoint, addr: SocketAddr, server_name: &str) -> io::Result<Self> {
        let connecting = endpoint.connect(addr, server_name).map_err(|error| {
            let kind = match &error {
                ConnectError::EndpointStopping => io::ErrorKind::NotConnected,
                ConnectError::CidsExhausted => io::ErrorKind::AddrNotAvailable,
                _ => io::ErrorKind::InvalidInput,
            };
            io::Error::new(kind, error)
        })?;
        let connection = connecting.await?;
        Self::open(endpoint, connection).await
    }

    /// Connects to `host:port`. The host is a name or an address, and the server's certificate must name it. If a name
    /// has several addresses, the first that answers is taken; attempts start a quarter of a second apart (RFC 8305 §5).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] without a port, [`io::ErrorKind::NotFound`] for a name without addresses, otherwise
    /// the error of the resolver or of the last attempt.
    pub async fn connect_host(endpoint: &Endpoint, host: &str) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "not of the form host:port");
        let (name, _) = host.rsplit_once(':').ok_or_else(invalid)?;
        let name = name.trim_start_matches('[').trim_end_matches(']');
        Self::connect_any(endpoint, tokio::net::lookup_host(host).await?, name).await
    }

    /// Connects to the first of several addresses of a host that answers, as [`Self::connect_host`] does.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] without addresses, otherwise the error of the last attempt.
    pub async fn connect_any(
        endpoint: &Endpoint,
        addrs: impl IntoIterator<Item = SocketAddr>,
        server_name: &str,
    ) -> io::Result<Self> {
        let mut attempts = JoinSet::new();
        for (addr, turn) in addrs.into_iter().zip(0_u32..) {
            let (endpoint, name) = (endpoint.clone(), server_name.to_owned());
            attempts.spawn(async move {
                tokio::time::sleep(ATTEMPT_DELAY * turn).await;
                Self::connect(&endpoint, addr, &name).await
            });
        }
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        while let Some(attempt) = attempts.join_next().await {
            match attempt.map_err(io::Error::other) {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) | Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Opens a stream on an existing connection, which must carry nothing else.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] or the kind of the [`ConnectionError`](crate::ConnectionError) if the connection is
    /// lost.
    pub async fn open(endpoint: &Endpoint, connection: Connection) -> io::Result<Self> {
        let (mut send, recv) = connection.open_bi().await?;
        send.write_all(&[HELLO]).await?;
        Ok(Self::new(endpoint.local_addr()?, connection, send, recv))
    }

    pub(crate) fn new(
        local_addr: SocketAddr,
        connection: Connection,
        send: SendStream,
        recv: RecvStream,
    ) -> Self {
        connection.linger();
        let local_addr =
            SocketAddr::new(connection.local_ip().unwrap_or_else(|| local_addr.ip()), local_addr.port());
        let read = OwnedReadHalf { recv, connection: connection.clone(), local_addr };
        Self { read, write: OwnedWriteHalf { send, connection, local_addr } }
    }

    /// The peer's address.
    ///
    /// # Errors
    /// Never; the signature is that of `TcpStream`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.read.peer_addr()
    }

    /// The local address.
    ///
    /// # Errors
    /// Never; the signature is that of `TcpStream`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.read.local_addr()
    }

    /// Always true: there is no Nagle algorithm (RFC 896). Written bytes leave with the next packet that the congestion
    /// window allows, in a small packet if no more have been written by then. To save packets when you write many small
    /// pieces, use a `BufWriter`.
    ///
    /// # Errors
    /// Never; the signature is that of `TcpStream`.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Does nothing, because there is nothing to turn off or on: see [`Self::nodelay`].
    ///
    /// # Errors
    /// Never; the signature is that of `TcpStream`.
    pub fn set_nodelay(&self, _nodelay: bool) -> io::Result<()> {
        Ok(())
    }

    /// The underlying connection, for its counters.
    pub fn connection(&self) -> &Connection {
        &self.read.connection
    }

    /// Both directions, to be used at the same time.
    pub fn split(&mut self) -> (&mut OwnedReadHalf, &mut OwnedWriteHalf) {
        (&mut self.read, &mut self.write)
    }

    /// Both directions, to be used in different tasks.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        (self.read, self.write)
    }

    /// Ends the sending direction and waits until everything is delivered, which `shutdown` does not, then closes the
    /// connection.
    ///
    /// # Errors
    /// An [`io::Error`] that contains the [`ConnectionError`](crate::ConnectionError) if the connection is lost first or
    /// closed by the peer.
    pub async fn close(self) -> io::Result<()> {
        Ok(self.read.connection.close_gracefully(VarInt::from_u32(0), b"").await?)
    }
}

/// The receiving direction of a [`Stream`]. Dropping it refuses later bytes.
pub struct OwnedReadHalf {
    // Dropped first: the connection closes with its last handle.
    recv: RecvStream,
    connection: Connection,
    local_addr: SocketAddr,
}

/// The sending direction of a [`Stream`]. Dropping it ends the direction after the written bytes.
pub struct OwnedWriteHalf {
    send: SendStream,
    connection: Connection,
    local_addr: SocketAddr,
}

macro_rules! addresses {
    ($half:ty) => {
        impl $half {
            /// The peer's address.
            ///
            /// # Errors
            /// Never; the signature is that of tokio's.
            pub fn peer_addr(&self) -> io::Result<SocketAddr> {
                Ok(self.connection.remote_address())
            }

            /// The local address.
            ///
            /// # Errors
            /// Never; the signature is that of tokio's.
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                Ok(self.local_addr)
            }
        }

        impl fmt::Debug for $half {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($half)).field("peer", &self.connection.remote_address()).finish()
            }
        }
    };
}

addresses!(OwnedReadHalf);
addresses!(OwnedWriteHalf);

/// Reads by a field.
macro_rules! reads_by {
    ($type:ty, $field:ident) => {
        impl AsyncRead for $type {
            fn poll_read(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                AsyncRead::poll_read(Pin::new(&mut self.$field), cx, buf)
            }
        }
    };
}

reads_by!(Stream, read);
reads_by!(OwnedReadHalf, recv);

/// Writes by a field.
macro_rules! writes_by {
    ($type:ty, $field:ident) => {
        impl AsyncWrite for $type {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                AsyncWrite::poll_write(Pin::new(&mut self.$field), cx, buf)
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.$field).poll_write_vectored(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                self.$field.is_write_vectored()
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.$field).poll_flush(cx)
            }

            fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.$field).poll_shutdown(cx)
            }
        }
    };
}

writes_by!(Stream, write);
writes_by!(OwnedWriteHalf, send);
