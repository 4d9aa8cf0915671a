//! The sending part of a stream.

use std::{
    future::{Future, poll_fn},
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use quinn::Written;
use rc3_core::{self as core, ClosedStream, StreamId, VarInt};
use tokio::io::AsyncWrite;

use crate::{
    connection_handle::Connection,
    error::{StoppedError, WriteError},
    state::{Access, ConnectionState},
    stream_ref::{StreamRef, Unavailable},
    wake::remember,
};

/// Most bytes copied by one write. A smaller send window would make a larger copy useless.
const COPY_MAX: usize = 256 * 1024;

/// A stream to send on. Dropping it finishes it, unless it was reset.
///
/// A write returns when the bytes are accepted, not when they are delivered: see [`Self::stopped`]. The loops share the
/// accepted bytes, so the earlier you write, the more RLP can send.
///
/// ```
/// use rc3_net::{VarInt, WriteError};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (client_config, server_config) = rc3_sim::identity::identity(&["example"]);
/// # let server = rc3_net::Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
/// # let client = rc3_net::Endpoint::client("127.0.0.1:0".parse()?)?;
/// # let connecting = client.connect_with(client_config, server.local_addr()?, "rc3.test")?;
/// # let accepting = async { server.accept().await.expect("the endpoint is open").await };
/// # let (client, server) = tokio::try_join!(connecting, accepting)?;
/// let mut send = client.open_uni().await?;
/// send.set_priority(1)?;
/// send.write_all(b"some bytes").await?;
///
/// // The receiver has stopped reading.
/// server.accept_uni().await?.stop(VarInt::from_u32(5))?;
/// assert_eq!(send.stopped().await?, Some(VarInt::from_u32(5)));
/// assert_eq!(send.write(b"more").await, Err(WriteError::Stopped(VarInt::from_u32(5))));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SendStream {
    pub(crate) stream: StreamRef,
}

impl SendStream {
    pub(crate) fn new(connection: Connection, id: StreamId, zero_rtt: bool) -> Self {
        Self { stream: StreamRef { connection, id, zero_rtt } }
    }

    /// Waits for room in the send window, then writes bytes from the front of `buf`; returns how many.
    ///
    /// # Errors
    /// [`WriteError::Stopped`] if the peer has stopped reading, [`WriteError::ConnectionLost`],
    /// [`WriteError::ClosedStream`]
    /// after [`Self::finish`] or [`Self::reset`], [`WriteError::ZeroRttRejected`] for a stream of rejected 0-RTT.
    ///
    /// # Cancel safety
    /// Dropping the future writes nothing.
    pub async fn write(&mut self, buf: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write_slice(cx, buf)).await
    }

    /// Writes all of `buf`.
    ///
    /// # Errors
    /// As [`Self::write`].
    ///
    /// # Cancel safety
    /// None: some of `buf` may have been written.
    pub async fn write_all(&mut self, mut buf: &[u8]) -> Result<(), WriteError> {
        while !buf.is_empty() {
            let written = self.write(buf).await?;
            buf = &buf[written..];
        }
        Ok(())
    }

    /// Writes as many of `bufs` as there is room for, without copying. Written bytes are removed from them.
    ///
    /// # Errors
    /// As [`Self::write`].
    ///
    /// # Cancel safety
    /// Dropping the future writes nothing.
    pub async fn write_chunks(&mut self, bufs: &mut [Bytes]) -> Result<Written, WriteError> {
        poll_fn(|cx| self.poll_write_chunks(cx, bufs)).await
    }

    /// Writes all of `buf`, without copying.
    ///
    /// # Errors
    /// As [`Self::write`].
    ///
    /// # Cancel safety
    /// None: some of `buf` may have been written.
    pub async fn write_chunk(&mut self, buf: Bytes) -> Result<(), WriteError> {
        self.write_all_chunks(&mut [buf]).await
    }

    /// Writes all of `bufs`, without copying.
    ///
    /// # Errors
    /// As [`Self::write`].
    ///
    /// # Cancel safety
    /// None: some of `bufs` may have been written; that much is removed from them.
    pub async fn write_all_chunks(&mut self, mut bufs: &mut [Bytes]) -> Result<(), WriteError> {
        while !bufs.is_empty() {
            let written = self.write_chunks(bufs).await?;
            bufs = &mut bufs[written.chunks..];
        }
        Ok(())
    }

    /// Ends the stream: after the bytes written so far the peer reads the end. Does not wait.
    ///
    /// # Errors
    /// [`ClosedStream`] if the stream was finished or reset before.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        let id = self.id();
        let finished = self.stream.access(Access::End, |core, state| {
            let finished = core.finish(id);
            if finished.is_ok() && state.error.is_none() {
                state.undelivered.insert(id);
            }
            finished
        });
        match finished {
            Ok(Err(core::FinishError::ClosedStream)) | Err(Unavailable::ZeroRttRejected) => Err(ClosedStream),
            // `stopped` reports whether the peer stopped the stream or the connection has ended.
            Ok(Ok(()) | Err(core::FinishError::Stopped(_))) | Err(Unavailable::ConnectionLost(_)) => Ok(()),
        }
    }

    /// Drops the bytes that are not yet delivered and reports `code` to the peer.
    ///
    /// # Errors
    /// [`ClosedStream`] if the stream was reset, or finished and delivered, before.
    pub fn reset(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        self.stream.reset(code)
    }

    /// Waits until the peer stops the stream, and returns its code; or until the finished stream was delivered and
    /// acknowledged, or the stream was reset, and returns `None`.
    ///
    /// The future does not borrow the stream.
    ///
    /// # Errors
    /// [`StoppedError::ConnectionLost`] if the connection is lost first, [`StoppedError::ZeroRttRejected`] for a stream of
    /// rejected 0-RTT.
    pub fn stopped(
        &self,
    ) -> impl Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync + 'static {
        let stream = self.stream.clone();
        async move {
            loop {
                let id = stream.id;
                let asked =
                    stream.access(Access::Change, |core, state| match (core.stopped(id), &state.error) {
                        (Ok(Some(code)), _) => Ok(Ok(Some(code))),
                        (Err(ClosedStream), _) => Ok(Ok(None)),
                        (Ok(None), Some(error)) => Ok(Err(StoppedError::from(error.clone()))),
                        (Ok(None), None) => {
                            let waiter = state.stopped.entry(id).or_default().clone();
                            Err((waiter.over.clone().notified_owned(), waiter))
                        }
                    });
                match asked? {
                    Ok(result) => return result,
                    Err((over, waiter)) => {
                        over.await;
                        if let Some(&code) = waiter.code.get() {
                            return Ok(Some(code));
                        }
                    }
                }
            }
        }
    }

    /// Both loops send streams with a higher priority first. Default: 0. Each step above 0, up to 8, may store 64 KiB more
    /// than the send window, so that its writes do not wait for bytes of lower priority.
    ///
    /// # Errors
    /// [`ClosedStream`] if the stream was reset, or finished and delivered.
    pub fn set_priority(&self, priority: i32) -> Result<(), ClosedStream> {
        let set = self.stream.access(Access::Command, |core, _| core.set_priority(self.id(), priority));
        set.unwrap_or(Err(ClosedStream))
    }

    /// See [`Self::set_priority`].
    ///
    /// # Errors
    /// [`ClosedStream`] if the stream was reset, or finished and delivered.
    pub fn priority(&self) -> Result<i32, ClosedStream> {
        let asked = self.stream.access(Access::Read, |core, _| core.priority(self.id()));
        asked.unwrap_or(Err(ClosedStream))
    }

    /// The number of the stream; the same on both sides.
    pub fn id(&self) -> StreamId {
        self.stream.id
    }

    /// Like [`Self::write`], for hand-written futures; with this crate's error, unlike that of [`AsyncWrite`].
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize, WriteError>> {
        self.get_mut().poll_write_slice(cx, buf)
    }

    fn poll_write_slice(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, WriteError>> {
        // Copied before the lock is taken.
        let copy = Bytes::copy_from_slice(&buf[..buf.len().min(COPY_MAX)]);
        self.poll_write_chunks(cx, &mut [copy]).map_ok(|written| written.bytes)
    }

    /// Like [`Self::write_chunks`], for hand-written futures.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn poll_write_chunks(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [Bytes],
    ) -> Poll<Result<Written, WriteError>> {
        let id = self.id();
        let written = self.stream.connection.shared().with(|endpoint| {
            let written = self.stream.access_in(endpoint, Access::Write, |core, state| {
                if let Some(error) = &state.error {
                    return Poll::Ready(Err(error.clone().into()));
                }
                let bytes = match core.write_chunks(id, bufs) {
                    Ok(bytes) => bytes,
                    Err(error) => return refused(cx, state, id, error),
                };
                let written = Written { bytes, chunks: bufs.iter().take_while(|buf| buf.is_empty()).count() };
                if written.bytes > 0 {
                    state.undelivered.insert(id);
                }
                Poll::Ready(Ok(written))
            });
            if matches!(written, Ok(Poll::Ready(Ok(_)))) {
                endpoint.wake_driver();
            }
            written
        });
        match written {
            Ok(written) => written,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

fn refused(
    cx: &Context<'_>,
    state: &mut ConnectionState,
    id: StreamId,
    error: core::WriteError,
) -> Poll<Result<Written, WriteError>> {
    Poll::Ready(Err(match error {
        core::WriteError::Blocked => {
            remember(&mut state.writers, id, cx.waker());
            return Poll::Pending;
        }
        core::WriteError::Stopped(code) => WriteError::Stopped(code),
        core::WriteError::ClosedStream => WriteError::ClosedStream,
    }))
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(self.get_mut().poll_write_slice(cx, buf));
        Poll::Ready(written.map_err(io::Error::from))
    }

    /// Joins all of `bufs`: the lock is taken once, and hyper need not join them beforehand.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut joined = BytesMut::new();
        for buf in bufs {
            let room = COPY_MAX - joined.len();
            joined.extend_from_slice(&buf[..buf.len().min(room)]);
        }
        let written = ready!(self.get_mut().poll_write_chunks(cx, &mut [joined.freeze()]));
        Poll::Ready(written.map(|written| written.bytes).map_err(io::Error::from))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is buffered: done at once.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// [`SendStream::finish`]; does not wait for delivery. Calling it again does no harm.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = self.get_mut().finish();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let id = self.id();
        // Without a connection there is nothing to finish.
        let forgotten = self.stream.access(Access::Read, |core, state| {
            state.writers.remove(&id);
            core.release(id);
            // Nobody waits.
            if state.stopped.get(&id).is_some_and(|waiter| Arc::strong_count(waiter) == 1) {
                state.stopped.remove(&id);
            }
            state.error.is_some() || core.writable(id) == Err(core::WriteError::ClosedStream)
        });
        if !matches!(forgotten, Ok(false)) {
            return;
        }
        let _: Result<(), Unavailable> =
            self.stream.access(Access::Command, |core, state| match core.finish(id) {
                Ok(()) => {
                    state.undelivered.insert(id);
                }
                // No one will ask for the code any more: let the core drop the stream.
                Err(core::FinishError::Stopped(code)) => drop(core.reset(id, code)),
                Err(core::FinishError::ClosedStream) => {}
            });
    }
}
