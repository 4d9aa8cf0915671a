//! Standard input and output as one end of a stream.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncWrite, Stdout};

use crate::system;

/// Standard output that closes when it is shut down, so that the program behind it reads the end.
pub(super) struct ClosableStdout(Stdout);

impl ClosableStdout {
    pub(super) fn new() -> Self {
        Self(tokio::io::stdout())
    }
}

impl AsyncWrite for ClosableStdout {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.0).poll_flush(cx);
        if let Poll::Ready(Ok(())) = flushed {
            return Poll::Ready(system::close_stdout());
        }
        flushed
    }
}
