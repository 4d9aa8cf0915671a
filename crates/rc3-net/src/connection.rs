//! The handle of a connection.

use std::{
    any::Any,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use rc3_core::{self as core, ConnectionError, ConnectionStats, Dir, Side, StreamId, VarInt};
use tokio::sync::Notify;

use crate::{
    error::ExportKeyingMaterialError,
    recv_stream::RecvStream,
    send_stream::SendStream,
    state::{ConnectionId, ConnectionState, Shared, Waiters},
    wake::until,
};

/// A connection. Clones are handles to the same one.
///
/// When the last handle is dropped, that of every stream included, the connection is closed with code 0 at
/// once, and what was not delivered is lost. [`Self::close_gracefully`] delivers first.
#[derive(Debug, Clone)]
pub struct Connection(pub(crate) ConnectionRef);

impl Connection {
    /// Opens a stream for sending, as soon as the peer allows another one.
    ///
    /// The peer sees it with its first bytes (or its end).
    ///
    /// # Errors
    /// When the connection is lost.
    ///
    /// # Cancel safety
    /// Dropping the future opens nothing.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        let id = self.open(Dir::Uni).await?;
        Ok(SendStream::new(self.0.clone(), id))
    }

    /// Opens a stream for both directions, as soon as the peer allows another one.
    ///
    /// The peer sees it with its first bytes (or its end): who opens must write first. [`crate::Stream`]
    /// does that by itself.
    ///
    /// # Errors
    /// When the connection is lost.
    ///
    /// # Cancel safety
    /// Dropping the future opens nothing.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.open(Dir::Bi).await?;
        Ok((SendStream::new(self.0.clone(), id), RecvStream::new(self.0.clone(), id)))
    }

    /// The next stream the peer opened for sending to us.
    ///
    /// # Errors
    /// When the connection is lost and no such stream is left.
    ///
    /// # Cancel safety
    /// Dropping the future loses no stream.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        let id = self.accept(Dir::Uni).await?;
        Ok(RecvStream::new(self.0.clone(), id))
    }

    /// The next stream the peer opened for both directions.
    ///
    /// # Errors
    /// When the connection is lost and no such stream is left.
    ///
    /// # Cancel safety
    /// Dropping the future loses no stream.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Dir::Bi).await?;
        Ok((SendStream::new(self.0.clone(), id), RecvStream::new(self.0.clone(), id)))
    }

    /// Waits until the connection is lost or closed by either side.
    pub async fn closed(&self) -> ConnectionError {
        self.0.wait(&self.0.waiters().closed, || self.close_reason()).await
    }

    /// Why the connection is lost or closed, if it is.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        match self.0.peek(|_, state| state.error.clone()) {
            Ok(error) => error,
            Err(error) => Some(error),
        }
    }

    /// Closes the connection at once: what is not delivered is lost, and what the peer has not read may be.
    /// It hears `code` and `reason` (below 1 KB, to fit into one packet).
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        self.0.shared().with(|state| state.close(self.0.id(), code, reason));
    }

    /// Closes the connection once every byte that was accepted, on any stream, has been delivered to the
    /// peer's transport and acknowledged. A stream still open for writing is finished, as by
    /// [`SendStream::finish`]: what it accepted so far is all it will carry. A stream that the peer stops no
    /// longer counts.
    ///
    /// The peer can still read all of it after it has heard of the close. What the *peer* sends meanwhile
    /// can be read until the close.
    ///
    /// # Errors
    /// When the connection was lost or closed otherwise before everything was delivered.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: the connection goes on to deliver and closes then, even when
    /// no handle to it is left.
    pub async fn close_gracefully(&self, code: VarInt, reason: &[u8]) -> Result<(), ConnectionError> {
        if let Some(error) = self.close_reason() {
            return Err(error);
        }
        let reason = Bytes::copy_from_slice(reason);
        let id = self.0.id();
        self.0.shared().with(|state| state.close_when_delivered(id, code, reason));
        match self.closed().await {
            ConnectionError::LocallyClosed if self.0.is_delivered() => Ok(()),
            error => Err(error),
        }
    }

    /// The peer's address now; clients may change theirs.
    pub fn remote_address(&self) -> SocketAddr {
        self.0.remote_address()
    }

    /// Our address that the peer talks to, where known.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.0.peek(|core, _| core.local_ip()).ok().flatten()
    }

    /// The smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.0.peek(|core, _| core.rtt()).unwrap_or_default()
    }

    /// Counters of both loops; `None` once the runtime of the endpoint has ended.
    pub fn try_stats(&self) -> Option<ConnectionStats> {
        self.0.peek(|core, _| core.stats()).ok()
    }

    /// Counters of both loops.
    ///
    /// # Panics
    /// When the runtime of the endpoint has ended; see [`Self::try_stats`].
    pub fn stats(&self) -> ConnectionStats {
        self.try_stats().expect("the runtime of the endpoint has ended")
    }

    /// Client or server.
    pub fn side(&self) -> Side {
        self.0.0.side
    }

    /// Whether the peer speaks rc3 too. Otherwise this is a plain QUIC connection.
    pub fn is_rc3(&self) -> bool {
        self.0.peek(|core, _| core.is_rc3()).unwrap_or_default()
    }

    /// What the handshake settled: a [`HandshakeData`](crate::crypto::rustls::HandshakeData). Its protocol
    /// is the application's own name, whether rc3 is spoken or not.
    pub fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let data = self.0.peek(|core, _| core.handshake_data()).ok()??;
        Some(Box::new(data))
    }

    /// The peer's certificates: a `Vec<rustls::pki_types::CertificateDer>`.
    pub fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.0.peek(|core, _| core.peer_identity()).ok()?
    }

    /// A number that no other living connection of the endpoint has, as long as a handle lives.
    pub fn stable_id(&self) -> usize {
        Arc::as_ptr(&self.0.0) as usize
    }

    /// Fills `output` with keying material that only the two ends know (RFC 8446 §7.5).
    ///
    /// # Errors
    /// When more is asked for than the exporter gives, or the connection is gone.
    pub fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let exported = self.0.peek(|core, _| core.export_keying_material(output, label, context));
        exported.ok().flatten().ok_or(ExportKeyingMaterialError)
    }

    /// Lets the connection deliver what it accepted when its last handle is dropped.
    pub(crate) fn linger(&self) {
        self.0.0.linger.store(true, Relaxed);
    }

    async fn open(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        let attempt = || {
            let opened = self.0.change(|core, state| match &state.error {
                Some(error) => Some(Err(error.clone())),
                None => core.open(dir).map(Ok),
            });
            opened.unwrap_or_else(|error| Some(Err(error)))
        };
        self.0.wait(&self.0.waiters().available[dir as usize], attempt).await
    }

    async fn accept(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        let attempt = || {
            let accepted = self.0.shared().with(|state| {
                // Taking a stream lets the peer open another.
                state.wake_driver();
                let id = self.0.id();
                state.connection(id, |core, state| match core.accept(dir) {
                    Some(id) => Some(Ok(id)),
                    None => state.error.clone().map(Err),
                })
            });
            accepted.unwrap_or_else(|error| Some(Err(error)))
        };
        self.0.wait(&self.0.waiters().opened[dir as usize], attempt).await
    }
}

/// A share in a connection: of a [`Connection`], of a stream, of a handshake.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionRef(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    id: ConnectionId,
    waiters: Arc<Waiters>,
    side: Side,
    linger: AtomicBool,
}

impl ConnectionRef {
    pub(crate) fn new(shared: Arc<Shared>, id: ConnectionId, waiters: Arc<Waiters>) -> Self {
        let side = shared.with(|state| state.peek(id, |core, _| core.side())).unwrap_or(Side::Client);
        Self(Arc::new(Inner { shared, id, waiters, side, linger: AtomicBool::new(false) }))
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.0.id
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    pub(crate) fn waiters(&self) -> &Waiters {
        &self.0.waiters
    }

    /// See [`crate::state::State::peek`].
    pub(crate) fn peek<T>(
        &self,
        ask: impl FnOnce(&core::Connection, &ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        self.shared().with(|state| state.peek(self.id(), ask))
    }

    /// See [`crate::state::State::connection`].
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        self.shared().with(|state| state.connection(self.id(), change))
    }

    /// As [`Self::change`], for what may have to be sent.
    pub(crate) fn command<T>(
        &self,
        change: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        self.shared().with(|state| {
            state.wake_driver();
            state.connection(self.id(), change)
        })
    }

    /// Tries again whenever `notify` speaks.
    pub(crate) async fn wait<T>(&self, notify: &Notify, attempt: impl FnMut() -> Option<T>) -> T {
        until(notify, attempt).await
    }

    pub(crate) fn remote_address(&self) -> SocketAddr {
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        self.peek(|core, _| core.remote_address()).unwrap_or(unspecified)
    }

    fn is_delivered(&self) -> bool {
        self.peek(|_, state| state.undelivered.is_empty()).unwrap_or_default()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let linger = self.linger.load(Relaxed);
        self.shared.with(|state| state.release_connection(self.id, linger));
    }
}
