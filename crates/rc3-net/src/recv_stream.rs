//! The receiving part of a stream.

use std::{
    future::poll_fn,
    io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use rc3_core::{self as core, Chunk, ClosedStream, StreamId, VarInt};
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    connection_handle::Connection,
    error::{ReadError, ReadExactError, ReadToEndError, ResetError},
    state::Access,
    stream_ref::StreamRef,
    wake::remember,
};

/// Most chunks taken under one lock.
const CHUNKS_MAX: usize = 64;

/// Most bytes taken at once for a reader that asks for one chunk at a time.
const FETCH_MAX: usize = 64 * 1024;

/// Consumed bytes after which the driver is woken to grant new credit, although the reader continues.
const CONSUMED_MAX: usize = 64 * 1024;

/// A stream to read from. Dropping it before its end stops it with code 0.
///
/// With RLP the tail of a stream may arrive before the middle: unordered reads, and [`read_to_end`](Self::read_to_end),
/// free its memory at once.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (client_config, server_config) = rc3_sim::identity::identity(&["example"]);
/// # let server = rc3_net::Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
/// # let client = rc3_net::Endpoint::client("127.0.0.1:0".parse()?)?;
/// # let connecting = client.connect_with(client_config, server.local_addr()?, "rc3.test")?;
/// # let accepting = async { server.accept().await.expect("the endpoint is open").await };
/// # let (client, server) = tokio::try_join!(connecting, accepting)?;
/// let mut send = client.open_uni().await?;
/// send.write_all(b"in two pieces").await?;
/// send.finish()?;
///
/// let mut recv = server.accept_uni().await?;
/// let mut first = [0; 6];
/// recv.read_exact(&mut first).await?;
/// assert_eq!((&first, recv.read_to_end(100).await?), (b"in two", b" pieces".to_vec()));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RecvStream {
    pub(crate) stream: StreamRef,
    /// The application knows how the stream ended: nothing is left to stop.
    over: bool,
    /// The peer's code, seen while earlier bytes had to be returned first, or already returned.
    reset: Option<VarInt>,
    /// Bytes read since the driver was last informed.
    consumed: usize,
    /// The next pieces in order, the first one last: taken together, returned one by one. Its room is freed when the
    /// reader waits: it may wait for long.
    fetched: Vec<Chunk>,
}

impl RecvStream {
    pub(crate) fn new(connection: Connection, id: StreamId, zero_rtt: bool) -> Self {
        let stream = StreamRef { connection, id, zero_rtt };
        Self { stream, over: false, reset: None, consumed: 0, fetched: Vec::new() }
    }

    /// Waits for at least one byte, then reads what has arrived, in order; returns how many bytes, `None` at the end.
    ///
    /// # Errors
    /// [`ReadError::Reset`] if the peer reset the stream, [`ReadError::ConnectionLost`], [`ReadError::IllegalOrderedRead`]
    /// after an unordered read, [`ReadError::ClosedStream`] after [`Self::stop`], [`ReadError::ZeroRttRejected`] for a
    /// stream of rejected 0-RTT.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let mut buf = ReadBuf::new(buf);
        poll_fn(|cx| self.poll_read_buf(cx, &mut buf)).await?;
        let read = buf.filled().len();
        Ok(if read == 0 && buf.capacity() != 0 { None } else { Some(read) })
    }

    /// Reads available bytes in order, at least one; nothing at the end.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Result<usize, ReadError>> {
        let mut buf = ReadBuf::new(buf);
        ready!(self.poll_read_buf(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Fills `buf`, in order.
    ///
    /// # Errors
    /// [`ReadExactError::FinishedEarly`] if the stream ends before `buf` is full, [`ReadExactError::ReadError`] as
    /// [`Self::read`].
    ///
    /// # Cancel safety
    /// None: bytes may have been read into `buf`.
    pub async fn read_exact(&mut self, buf: &mut [u8]) -> Result<(), ReadExactError> {
        let mut read = 0;
        while read < buf.len() {
            match self.read(&mut buf[read..]).await? {
                Some(more) => read += more,
                None => return Err(ReadExactError::FinishedEarly(read)),
            }
        }
        Ok(())
    }

    /// The next piece of at most `max_length` bytes, without copying; `None` at the end. With `ordered` false, any
    /// available piece, each byte once; after that, no ordered read is possible.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn read_chunk(&mut self, max_length: usize, ordered: bool) -> Result<Option<Chunk>, ReadError> {
        poll_fn(|cx| self.poll_read_chunk(cx, max_length, ordered)).await
    }

    /// Like [`Self::read_chunk`], for hand-written futures.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max_length: usize,
        ordered: bool,
    ) -> Poll<Result<Option<Chunk>, ReadError>> {
        // A piece without bytes is none of those out of order.
        if ordered || max_length == 0 {
            ready!(self.poll_fetch(cx, FETCH_MAX))?;
            return Poll::Ready(Ok(self.next_fetched(max_length)));
        }
        let mut chunks = Vec::new();
        self.poll_chunks(cx, max_length, 1, ordered, &mut chunks).map_ok(|()| chunks.pop())
    }

    /// Fills `fetched` with at most `bytes_max` bytes unless it has some; it stays empty at the end.
    fn poll_fetch(&mut self, cx: &mut Context<'_>, bytes_max: usize) -> Poll<Result<(), ReadError>> {
        if !self.fetched.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut chunks = mem::take(&mut self.fetched);
        ready!(self.poll_chunks(cx, bytes_max, CHUNKS_MAX, true, &mut chunks))?;
        chunks.reverse();
        self.fetched = chunks;
        Poll::Ready(Ok(()))
    }

    /// Where the fetched piece begins that comes next.
    pub(crate) fn next_offset(&self) -> Option<u64> {
        Some(self.fetched.last()?.offset)
    }

    /// At most `max` bytes of the fetched piece that comes next.
    fn next_fetched(&mut self, max: usize) -> Option<Chunk> {
        let next = self.fetched.last_mut()?;
        if next.bytes.len() <= max {
            return self.fetched.pop();
        }
        let piece = Chunk { offset: next.offset, bytes: next.bytes.split_to(max) };
        next.offset += max as u64;
        Some(piece)
    }

    /// The next pieces in order, without copying: fills `bufs` from the front and returns how many; `None` at
    /// the end.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn read_chunks(&mut self, bufs: &mut [Bytes]) -> Result<Option<usize>, ReadError> {
        if bufs.is_empty() {
            return Ok(Some(0));
        }
        let mut chunks = Vec::new();
        poll_fn(|cx| self.poll_chunks(cx, usize::MAX, bufs.len(), true, &mut chunks)).await?;
        let count = chunks.len();
        for (buf, chunk) in bufs.iter_mut().zip(chunks) {
            *buf = chunk.bytes;
        }
        Ok(if count == 0 { None } else { Some(count) })
    }

    /// All bytes to the end, at most `size_limit`. Bytes are taken in the order of their arrival.
    ///
    /// # Errors
    /// [`ReadToEndError::TooLong`] above `size_limit`, [`ReadToEndError::Read`] as [`Self::read`].
    ///
    /// # Cancel safety
    /// None: data already read is lost.
    pub async fn read_to_end(&mut self, size_limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut read = 0;
        loop {
            let before = chunks.len();
            poll_fn(|cx| self.poll_chunks(cx, usize::MAX, CHUNKS_MAX, false, &mut chunks)).await?;
            if chunks.len() == before {
                break;
            }
            read += chunks[before..].iter().map(|chunk| chunk.bytes.len()).sum::<usize>();
            // Every byte arrives once, so counting is enough; a gap below counts once it is filled.
            if read > size_limit {
                return Err(ReadToEndError::TooLong);
            }
        }
        if chunks.len() == 1
            && let Some(only) = chunks.pop()
        {
            return Ok(only.bytes.into());
        }
        chunks.sort_unstable_by_key(|chunk| chunk.offset);
        let mut all = Vec::with_capacity(read);
        for chunk in chunks {
            all.extend_from_slice(&chunk.bytes);
        }
        Ok(all)
    }

    /// Stops reading: drops the bytes that were not read and reports `code` to the peer.
    ///
    /// # Errors
    /// [`ClosedStream`] if the stream was stopped or read to its end before.
    pub fn stop(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        let unread = !mem::take(&mut self.fetched).is_empty();
        if self.over {
            return if unread { Ok(()) } else { Err(ClosedStream) };
        }
        self.over = true;
        let id = self.id();
        let stopped = self.stream.access(Access::End, |core, state| {
            state.readers.remove(&id);
            core.stop(id, code)
        });
        stopped.unwrap_or(Ok(()))
    }

    /// Waits until the peer resets the stream, and returns its code; or until it no longer can, because all bytes have
    /// arrived or the stream was stopped, and returns `None`. Reads nothing.
    ///
    /// # Errors
    /// [`ResetError::ConnectionLost`] if the connection is lost first, [`ResetError::ZeroRttRejected`] for a stream of
    /// rejected 0-RTT.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn received_reset(&mut self) -> Result<Option<VarInt>, ResetError> {
        let id = self.id();
        poll_fn(|cx| {
            if self.reset.is_some() || self.over {
                return Poll::Ready(Ok(self.reset));
            }
            let asked =
                self.stream.access(Access::Change, |core, state| match (core.reset_code(id), &state.error) {
                    (Ok(Some(code)), _) => Poll::Ready(Ok(Some(code))),
                    (Err(ClosedStream), _) => Poll::Ready(Ok(None)),
                    (Ok(None), Some(error)) => Poll::Ready(Err(error.clone().into())),
                    (Ok(None), None) => {
                        remember(&mut state.readers, id, cx.waker());
                        Poll::Pending
                    }
                });
            asked.unwrap_or_else(|error| Poll::Ready(Err(error.into())))
        })
        .await
    }

    /// Whether the stream was opened, or accepted, before the handshake was complete. On a server its bytes may
    /// then be a replay by an attacker (RFC 8446 §8): do nothing that must not happen twice.
    pub fn is_0rtt(&self) -> bool {
        self.stream.zero_rtt
    }

    /// The next pieces in any order, at most `bytes_max` bytes together; none at the end.
    pub(crate) async fn read_any(
        &mut self,
        bytes_max: usize,
        chunks: &mut Vec<Chunk>,
    ) -> Result<(), ReadError> {
        poll_fn(|cx| self.poll_chunks(cx, bytes_max, CHUNKS_MAX, false, chunks)).await
    }

    /// The number of the stream; the same on both sides.
    pub fn id(&self) -> StreamId {
        self.stream.id
    }

    /// Reads available bytes in order into the unfilled part of `buf`; nothing at the end.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn poll_read_buf(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), ReadError>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_fetch(cx, buf.remaining()))?;
        while buf.remaining() > 0
            && let Some(chunk) = self.next_fetched(buf.remaining())
        {
            buf.put_slice(&chunk.bytes);
        }
        Poll::Ready(Ok(()))
    }

    /// Adds up to `count_max` pieces of at most `bytes_max` bytes together; none at the end.
    fn poll_chunks(
        &mut self,
        cx: &mut Context<'_>,
        mut bytes_max: usize,
        count_max: usize,
        ordered: bool,
        chunks: &mut Vec<Chunk>,
    ) -> Poll<Result<(), ReadError>> {
        let before = chunks.len();
        while chunks.len() - before < count_max
            && bytes_max > 0
            && let Some(chunk) = self.next_fetched(bytes_max)
        {
            bytes_max -= chunk.bytes.len();
            chunks.push(chunk);
        }
        if chunks.len() > before || bytes_max == 0 {
            return Poll::Ready(Ok(()));
        }
        if let Some(code) = self.reset {
            return Poll::Ready(Err(ReadError::Reset(code)));
        }
        if self.over {
            return Poll::Ready(Ok(()));
        }
        let Self { stream, over, reset, consumed, .. } = self;
        let (shared, id) = (stream.connection.shared(), stream.id);
        let result = shared.with(|endpoint| {
            let result = stream.access_in(endpoint, Access::ReadOn, |core, state| {
                let read = core.read_chunks(id, bytes_max, count_max, ordered, chunks);
                *consumed += chunks[before..].iter().map(|chunk| chunk.bytes.len()).sum::<usize>();
                match read {
                    Ok(true) => Poll::Ready(Ok(())),
                    Ok(false) => {
                        *over = true;
                        state.readers.remove(&id);
                        Poll::Ready(Ok(()))
                    }
                    Err(core::ReadError::Reset(code)) => {
                        (*over, *reset) = (true, Some(code));
                        state.readers.remove(&id);
                        Poll::Ready(Err(ReadError::Reset(code)))
                    }
                    Err(core::ReadError::ClosedStream) => Poll::Ready(Err(ReadError::ClosedStream)),
                    Err(core::ReadError::IllegalOrderedRead) => {
                        Poll::Ready(Err(ReadError::IllegalOrderedRead))
                    }
                    Err(core::ReadError::Blocked) => match &state.error {
                        Some(error) => Poll::Ready(Err(error.clone().into())),
                        None => {
                            remember(&mut state.readers, id, cx.waker());
                            Poll::Pending
                        }
                    },
                }
            });
            // Before waiting, a reader must grant all it can; one that continues need not do so each time.
            let waits = !matches!(result, Ok(Poll::Ready(Ok(()))));
            if *consumed >= CONSUMED_MAX || (waits && *consumed > 0) || *over {
                *consumed = 0;
                endpoint.wake_driver_after_reader();
            }
            result
        });
        match result {
            // Bytes first, then the end or the error after them.
            Ok(Poll::Pending | Poll::Ready(Err(_))) if chunks.len() > before => Poll::Ready(Ok(())),
            Ok(result) => result,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = ready!(self.get_mut().poll_read_buf(cx, buf));
        Poll::Ready(read.map_err(io::Error::from))
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        // Whatever ended it has forgotten its reader.
        if self.over {
            return;
        }
        let id = self.id();
        // Without a connection there is nothing to stop.
        let forgotten = self.stream.access(Access::Read, |_, state| {
            state.readers.remove(&id);
            state.error.is_some()
        });
        if let Ok(false) = forgotten {
            // A stream that has ended anyway needs no stop.
            let _ = self.stream.access(Access::End, |core, _| core.stop(id, VarInt::from_u32(0)));
        }
    }
}
