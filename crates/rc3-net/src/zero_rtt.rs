//! Whether data sent before the handshake was complete was accepted.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

/// Resolves when the handshake ends: `true` if the server accepted 0-RTT, and on servers; `false` if it rejected 0-RTT or
/// the handshake failed.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ZeroRttAccepted(pub(crate) oneshot::Receiver<bool>);

impl Future for ZeroRttAccepted {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.0).poll(cx).map(|accepted| accepted.unwrap_or(false))
    }
}
