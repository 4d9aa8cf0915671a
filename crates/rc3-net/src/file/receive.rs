//! From a stream into a sink.

use std::sync::Arc;

use rc3_core::{Chunk, ClosedStream};
use tokio::task::JoinHandle;

use super::{RecvFileError, SINK_FAILED, SOURCE_FAILED, WriteAt};
use crate::{error::ReadError, recv_stream::RecvStream, state::Access};

/// Bytes collected before a write: enough that switching threads costs little.
const GATHER_BYTES: usize = 256 << 10;

impl RecvStream {
    /// Writes the rest of the stream into `sink` as it arrives, in any order. Offset 0 of `sink` is the byte that an
    /// ordered read would yield next. Returns the number of bytes once all are written.
    ///
    /// The peer's RLP loop may send the whole stream at once, tail first. Bytes that wait to be written are bounded:
    /// if the sink does not keep up, RLP data is dropped, and the primary waits.
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
    /// let sending = send.send_file(bytes::Bytes::from(vec![7; 3_000_000]), 3_000_000);
    ///
    /// let file = tempfile::tempfile()?;
    /// let receiving = async {
    ///     let mut recv = server.accept_uni().await?;
    ///     Ok::<_, Box<dyn std::error::Error>>(recv.recv_file(file.try_clone()?, 10_000_000).await?)
    /// };
    /// let (sent, received) = tokio::join!(sending, receiving);
    /// sent?;
    /// assert_eq!(received?, 3_000_000);
    /// assert_eq!(file.metadata()?.len(), 3_000_000);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RecvFileError::Write`] if the sink fails, [`RecvFileError::TooLong`] above `size_max` bytes, of which none is
    /// written beyond `size_max`, [`RecvFileError::SourceFailed`] and [`RecvFileError::Reset`] if the peer resets the
    /// stream, [`RecvFileError::ConnectionLost`], [`RecvFileError::ClosedStream`].
    ///
    /// The sink is free then: no write goes on.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// None: data already read is lost to other reads.
    pub async fn recv_file(&mut self, sink: impl WriteAt, size_max: u64) -> Result<u64, RecvFileError> {
        let id = self.id();
        let base = self.stream.access(Access::Command, |core, _| core.read_out_of_order(id));
        let base = base.map_err(|unavailable| recv_error(unavailable.into()))?;
        // What was fetched comes first, and may be all.
        let fetched = self.next_offset();
        let base =
            fetched.ok_or(ClosedStream).or(base).map_err(|ClosedStream| RecvFileError::ClosedStream)?;
        let result = self.write_to(Arc::new(sink), base, size_max).await;
        if matches!(result, Err(RecvFileError::Write { .. } | RecvFileError::TooLong)) {
            // It may have arrived completely.
            let _ = self.stop(SINK_FAILED);
        }
        result
    }

    async fn write_to<S: WriteAt>(
        &mut self,
        sink: Arc<S>,
        base: u64,
        size_max: u64,
    ) -> Result<u64, RecvFileError> {
        let (mut batch, mut total) = (WriteBatch::default(), 0);
        let mut writing: Option<JoinHandle<Result<WriteBatch, RecvFileError>>> = None;
        loop {
            let gathering = self.gather(&mut batch, base, size_max);
            // One batch is written while the next is gathered. Nothing is written any more when this returns.
            let (spare, ended) = match writing.take() {
                // The sink's fault is older, and may be why the peer has gone.
                Some(writing) => tokio::try_join!(await_write(writing), async { Ok(gathering.await) })?,
                None => (WriteBatch::default(), gathering.await),
            };
            let ended = ended?;
            total += batch.bytes.len() as u64;
            let sink = Arc::clone(&sink);
            let full = std::mem::replace(&mut batch, spare);
            let last = tokio::task::spawn_blocking(move || full.write(&*sink));
            if ended {
                await_write(last).await?;
                return Ok(total);
            }
            writing = Some(last);
        }
    }

    /// Fills the batch; returns whether the stream has ended.
    async fn gather(
        &mut self,
        batch: &mut WriteBatch,
        base: u64,
        size_max: u64,
    ) -> Result<bool, RecvFileError> {
        let mut chunks: Vec<Chunk> = Vec::new();
        while batch.bytes.len() < GATHER_BYTES {
            let room = GATHER_BYTES - batch.bytes.len();
            self.read_any(room, &mut chunks).await.map_err(recv_error)?;
            if chunks.is_empty() {
                return Ok(true);
            }
            for chunk in chunks.drain(..) {
                // Ordered reads have taken everything below `base`.
                let offset = chunk.offset.saturating_sub(base);
                if offset.saturating_add(chunk.bytes.len() as u64) > size_max {
                    return Err(RecvFileError::TooLong);
                }
                batch.add(offset, &chunk.bytes);
            }
        }
        Ok(false)
    }
}

/// Pieces that are written together.
#[derive(Default)]
struct WriteBatch {
    bytes: Vec<u8>,
    /// Where each piece of `bytes` belongs: offset and length. Neighbours are joined.
    runs: Vec<(u64, usize)>,
}

impl WriteBatch {
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes.reserve(GATHER_BYTES.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(bytes);
        match self.runs.last_mut() {
            Some((start, length)) if *start + *length as u64 == offset => *length += bytes.len(),
            _ => self.runs.push((offset, bytes.len())),
        }
    }

    /// Writes all pieces; the emptied batch can be reused.
    fn write(mut self, sink: &impl WriteAt) -> Result<Self, RecvFileError> {
        let mut rest = self.bytes.as_slice();
        for &(offset, length) in &self.runs {
            let (run, after) = rest.split_at(length);
            sink.write_all_at(run, offset).map_err(|error| RecvFileError::Write { offset, error })?;
            rest = after;
        }
        self.bytes.clear();
        self.runs.clear();
        Ok(self)
    }
}

async fn await_write(
    writing: JoinHandle<Result<WriteBatch, RecvFileError>>,
) -> Result<WriteBatch, RecvFileError> {
    match writing.await {
        Ok(result) => result,
        // Its thread panicked, or the runtime ends.
        Err(error) => Err(RecvFileError::Write { offset: 0, error: std::io::Error::other(error) }),
    }
}

fn recv_error(error: ReadError) -> RecvFileError {
    match error {
        ReadError::Reset(SOURCE_FAILED) => RecvFileError::SourceFailed,
        ReadError::Reset(code) => RecvFileError::Reset(code),
        ReadError::ConnectionLost(error) => RecvFileError::ConnectionLost(error),
        ReadError::ClosedStream | ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected => {
            RecvFileError::ClosedStream
        }
    }
}
