//! A [`UdpPoller`] from futures that wait once each.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::UdpPoller;

type Wait = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

/// Makes a future whenever someone waits, and keeps it until it is ready.
pub(super) struct Poller<Make> {
    make: Make,
    waiting: Option<Wait>,
}

impl<Make> Poller<Make> {
    pub(super) fn new(make: Make) -> Self {
        Self { make, waiting: None }
    }
}

impl<Make, Waiting> UdpPoller for Poller<Make>
where
    Make: Fn() -> Waiting + Send + Sync + Unpin + 'static,
    Waiting: Future<Output = io::Result<()>> + Send + Sync + 'static,
{
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let waiting = this.waiting.get_or_insert_with(|| Box::pin((this.make)()));
        let result = ready!(waiting.as_mut().poll(cx));
        this.waiting = None;
        Poll::Ready(result)
    }
}

impl<Make> fmt::Debug for Poller<Make> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("waits", &self.waiting.is_some()).finish_non_exhaustive()
    }
}
