//! From a source into a stream.

use std::{future::poll_fn, io, sync::Arc, task::Poll};

use bytes::Bytes;
use rc3_core::{self as core, SourceError, SourceRead, VarInt, units::Span};

use super::{ReadAt, SINK_FAILED, SOURCE_FAILED, SendFileError};
use crate::{
    send_stream::SendStream,
    state::Access,
    stream_ref::{StreamRef, Unavailable},
    wake::remember,
};

impl SendStream {
    /// Ends the stream with the first `len` bytes of `source`, after earlier writes. The whole length is on offer to
    /// both loops at once; memory is bounded, at a few megabytes per connection.
    ///
    /// Returns when the source is no longer needed: every byte is delivered or handed to the primary. The stream is
    /// finished then; await [`Self::stopped`] to know that all bytes have arrived.
    ///
    /// Any [`ReadAt`] can be sent: a [`File`](std::fs::File), or bytes in memory.
    ///
    /// ```
    /// use bytes::Bytes;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (client_config, server_config) = rc3_sim::identity::identity(&["example"]);
    /// # let server = rc3_net::Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    /// # let client = rc3_net::Endpoint::client("127.0.0.1:0".parse()?)?;
    /// # let connecting = client.connect_with(client_config, server.local_addr()?, "rc3.test")?;
    /// # let accepting = async { server.accept().await.expect("the endpoint is open").await };
    /// # let (client, server) = tokio::try_join!(connecting, accepting)?;
    /// let content = Bytes::from(vec![7; 3_000_000]);
    /// let mut send = client.open_uni().await?;
    /// send.write_all(b"name.bin\n").await?;
    /// let sending = send.send_file(content.clone(), content.len() as u64);
    ///
    /// let receiving = async {
    ///     let mut recv = server.accept_uni().await?;
    ///     Ok::<_, std::io::Error>(recv.read_to_end(4_000_000).await?)
    /// };
    /// let (sent, received) = tokio::join!(sending, receiving);
    /// sent?;
    /// assert_eq!(received?.strip_prefix(b"name.bin\n"), Some(&content[..]));
    /// assert_eq!(send.stopped().await?, None, "all of it has arrived");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`SendFileError::Read`] if the source fails, [`SendFileError::Shrunk`] if it has fewer than `len` bytes,
    /// [`SendFileError::TooLong`] if the stream would exceed 2⁶² - 1 bytes, [`SendFileError::SinkFailed`] and
    /// [`SendFileError::Stopped`] if the peer stops reading, [`SendFileError::ConnectionLost`],
    /// [`SendFileError::ClosedStream`]. The stream has ended in every case.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// None: dropping the future resets the stream with [`SOURCE_FAILED`].
    pub async fn send_file(&mut self, source: impl ReadAt, len: u64) -> Result<(), SendFileError> {
        let (stream, id) = (self.stream.clone(), self.id());
        stream.access(Access::Command, |core, state| {
            if let Some(error) = &state.error {
                return Err(SendFileError::from(error.clone()));
            }
            core.attach_source(id, len).map_err(|error| match error {
                SourceError::TooLong => SendFileError::TooLong,
                SourceError::Write(error) => write_error(error),
            })?;
            state.undelivered.insert(id);
            Ok(())
        })??;
        let mut unread = Unread { stream, done: false };
        let source = Arc::new(source);
        while let Some(span) = unread.next_read().await? {
            let (stream, source) = (unread.stream.clone(), Arc::clone(&source));
            let reading = tokio::task::spawn_blocking(move || read(&stream, &*source, span));
            match reading.await {
                Ok(result) => result?,
                // Its thread panicked, or the runtime ends.
                Err(error) => {
                    return Err(SendFileError::Read { offset: span.start, error: io::Error::other(error) });
                }
            }
        }
        unread.done = true;
        Ok(())
    }
}

/// A source in use. Dropping it before the end resets the stream.
struct Unread {
    stream: StreamRef,
    done: bool,
}

impl Unread {
    /// The next span to read, once there is one; `None` when all is done.
    async fn next_read(&self) -> Result<Option<Span>, SendFileError> {
        let id = self.stream.id;
        poll_fn(|cx| {
            let asked = self.stream.access(Access::Change, |core, state| {
                if let Some(error) = &state.error {
                    return Poll::Ready(Err(error.clone().into()));
                }
                match core.next_read(id) {
                    Ok(SourceRead::Span(span)) => Poll::Ready(Ok(Some(span))),
                    // Completely delivered, and dropped.
                    Ok(SourceRead::Done) | Err(core::WriteError::ClosedStream) => Poll::Ready(Ok(None)),
                    Ok(SourceRead::Wait) => {
                        remember(&mut state.writers, id, cx.waker());
                        Poll::Pending
                    }
                    Err(error) => Poll::Ready(Err(write_error(error))),
                }
            });
            asked.unwrap_or_else(|error| Poll::Ready(Err(error.into())))
        })
        .await
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        if !self.done {
            // The stream may have ended already.
            let _ = self.stream.reset(SOURCE_FAILED);
        }
    }
}

/// Reads `span` and later requests, until there are none.
fn read(stream: &StreamRef, source: &impl ReadAt, mut span: Span) -> Result<(), SendFileError> {
    let id = stream.id;
    loop {
        let piece = read_some(source, span)?;
        let end = span.start + piece.len() as u64;
        let next = stream.access(Access::Command, |core, _| {
            core.supply(id, span.start, piece);
            // After a short read, continue as long as the rest is needed.
            match core.stopped(id) {
                Ok(None) if end < span.end => Ok(SourceRead::Span(Span::new(end, span.end))),
                _ => core.next_read(id),
            }
        })?;
        match next {
            Ok(SourceRead::Span(next)) => span = next,
            // The task that waits for this one sees the same error.
            Ok(SourceRead::Wait | SourceRead::Done) | Err(_) => return Ok(()),
        }
    }
}

/// Reads at least one byte from the start of `span`.
fn read_some(source: &impl ReadAt, span: Span) -> Result<Bytes, SendFileError> {
    // The core requests a fraction of a megabyte.
    let mut buf = vec![0; usize::try_from(span.len()).unwrap_or(usize::MAX)];
    loop {
        match source.read_at(&mut buf, span.start) {
            Ok(0) => return Err(SendFileError::Shrunk(span.start)),
            Ok(read) if read < buf.len() / 2 => return Ok(Bytes::copy_from_slice(&buf[..read])),
            Ok(read) => {
                buf.truncate(read);
                return Ok(buf.into());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SendFileError::Read { offset: span.start, error }),
        }
    }
}

impl From<Unavailable> for SendFileError {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::ConnectionLost(error) => Self::ConnectionLost(error),
            Unavailable::ZeroRttRejected => Self::ClosedStream,
        }
    }
}

fn write_error(error: core::WriteError) -> SendFileError {
    match error {
        core::WriteError::Stopped(code) => stopped(code),
        core::WriteError::ClosedStream | core::WriteError::Blocked => SendFileError::ClosedStream,
    }
}

fn stopped(code: VarInt) -> SendFileError {
    if code == SINK_FAILED { SendFileError::SinkFailed } else { SendFileError::Stopped(code) }
}
