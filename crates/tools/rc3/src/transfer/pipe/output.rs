//! Writes to a pipe or file that may block.

use std::{
    io::{self, Write},
    thread,
};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::CHUNKS_AHEAD;

/// Writes in a thread of its own, because a blocked write must not delay the end of the program.
pub(super) struct Output<W> {
    chunks: mpsc::Sender<Bytes>,
    done: oneshot::Receiver<io::Result<W>>,
}

impl<W: Write + Send + 'static> Output<W> {
    /// Begins to write to `to`.
    pub(super) fn new(mut to: W) -> Self {
        let (chunks, mut coming) = mpsc::channel::<Bytes>(CHUNKS_AHEAD);
        let (report, done) = oneshot::channel();
        thread::spawn(move || {
            let mut write = || -> io::Result<()> {
                while let Some(chunk) = coming.blocking_recv() {
                    to.write_all(&chunk)?;
                    // Standard output would keep the rest of a line, for which a reader may wait.
                    to.flush()?;
                }
                Ok(())
            };
            let written = write();
            drop(coming);
            let _ = report.send(written.map(|()| to));
        });
        Self { chunks, done }
    }

    /// Waits for room for a chunk.
    ///
    /// # Errors
    /// Of this or an earlier write.
    pub(super) async fn write(&mut self, chunk: Bytes) -> io::Result<()> {
        if self.chunks.send(chunk).await.is_ok() {
            return Ok(());
        }
        let ended = (&mut self.done).await.map_err(io::Error::other)?;
        ended.and_then(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// Of the last writes.
    pub(super) async fn finish(self) -> io::Result<W> {
        drop(self.chunks);
        self.done.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn everything_is_written_in_order_and_a_closed_pipe_is_an_error() {
        let mut output = Output::new(Vec::new());
        for number in 0..100 {
            output.write(vec![number; 3].into()).await.unwrap();
        }
        let expected: Vec<u8> = (0..100).flat_map(|number| [number; 3]).collect();
        assert_eq!(output.finish().await.unwrap(), expected);
        let mut output = Output::new(Closed);
        let error = loop {
            if let Err(error) = output.write(vec![1].into()).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let output = Output::new(Closed);
        assert!(output.finish().await.is_ok(), "nothing was written");
    }
}
