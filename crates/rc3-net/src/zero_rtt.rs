//! Whether data sent before the handshake was complete has counted.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

/// Tells, when the handshake is complete, whether the server took what was sent before; `true` on servers. `false`
/// when the handshake fails.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ZeroRttAccepted(pub(crate) oneshot::Receiver<bool>);

impl Future for ZeroRttAccepted {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.0).poll(cx).map(|accepted| accepted.unwrap_or(false))
    }
}
