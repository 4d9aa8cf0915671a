//! The way through ssh while a transfer runs: datagrams for the relay, and the far end's last message.

use super::{
    message::Reply,
    relay::Relay,
    wire::{Frame, Wire},
};
use crate::transfer::message::decode;

/// Reads frames until ssh ends.
pub(super) struct Link {
    pub(super) wire: Wire,
    pub(super) relay: Option<Relay>,
    /// How many sources the far end skipped, once it is done.
    done: Option<u32>,
}

impl Link {
    /// Without a relay so far.
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire, relay: None, done: None }
    }

    /// Delivers datagrams until the far end is done, with the number of sources it skipped; `None` when ssh ends.
    ///
    /// Cancel-safe: dropping the future loses at most one datagram.
    pub(super) async fn run(&mut self) -> Option<u32> {
        while self.done.is_none() {
            match self.wire.next().await.ok()? {
                Frame::Datagram(datagram) => {
                    if let Some(relay) = &self.relay {
                        relay.deliver(&datagram).await;
                    }
                }
                Frame::Message(body) => {
                    if let Some(Reply::Done { left_out }) = decode(&body) {
                        self.done = Some(left_out);
                    }
                }
            }
        }
        self.done
    }

    /// Keeps delivering while `work` runs.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => return done,
            _ = self.run() => {}
        }
        work.await
    }
}
