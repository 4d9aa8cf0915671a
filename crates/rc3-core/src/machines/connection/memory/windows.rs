//! Windows that follow the traffic: of the peer's primary, of its RLP loop, and of the bytes stored for sending. The
//! law is in [`crate::laws::window`]; this module decides what is measured against which window.

use std::time::{Duration, Instant};

use crate::{
    config::TransportConfig,
    laws::{
        offer::Offer,
        window::{WindowTuner, worth_storing},
    },
    quic::Side,
};

/// The windows of a connection, except RLP's, which belongs to its credit.
#[derive(Debug)]
pub(crate) struct Windows {
    receive: WindowTuner,
    send: WindowTuner,
    /// The application has set the send window.
    send_fixed: bool,
    /// Upper bound of the bytes that one stream stores for sending.
    pub(super) stream_send: u64,
    /// What the peer's primary may send.
    pub(super) offer: Offer,
    /// Upper bound of received and unread bytes of both loops.
    received: u64,
    /// The same of one stream and one loop.
    pub(super) stream_receive: u64,
    /// Bytes taken from the primary so far.
    taken: u64,
    /// Bytes either loop has sent for the first time (or handed to the primary, in plain QUIC).
    sent: u64,
}

impl Windows {
    /// The primary's window starts with at most `initial` bytes.
    pub(super) fn new(config: &TransportConfig, side: Side, initial: u64) -> Self {
        let receive = config.receive_tuner(initial);
        let (send, stream_send) = (config.send_tuner(), config.stream_send_window);
        Self {
            receive,
            send,
            send_fixed: false,
            stream_send,
            offer: Offer::new(config.advertised_receive(side, initial)),
            received: config.receive_max(),
            stream_receive: config.stream_receive_window.into(),
            taken: 0,
            sent: 0,
        }
    }

    /// Upper bound of received and unread bytes of both loops.
    pub(super) fn received_max(&self) -> u64 {
        self.received
    }

    /// RLP's part of `received_max`: what the primary's window leaves.
    pub(crate) fn rlp_part(&self) -> u64 {
        self.received.saturating_sub(self.receive.window)
    }

    /// Fixes the send window at `bytes`.
    pub(crate) fn fix_send(&mut self, bytes: u64) {
        self.send = WindowTuner::new(bytes, bytes);
        self.send_fixed = true;
    }

    /// Sets the bound of both loops; the primary's window is at once all of it, or half if there is an RLP loop.
    pub(crate) fn set_receive(&mut self, bytes: u64, beside_rlp: bool) {
        let least = if beside_rlp { bytes / 2 } else { bytes };
        self.received = bytes;
        self.receive = WindowTuner::new(self.receive.window.max(least), bytes);
    }

    /// There is no RLP loop: what was kept for it is the primary's.
    pub(crate) fn leave_to_primary(&mut self) {
        if self.receive.window == self.received / 2 {
            self.receive.raise(self.received);
        }
    }

    /// Upper bound of bytes stored for sending on a path with this least round-trip time.
    pub(super) fn store(&self, min_rtt: Duration) -> u64 {
        let window = self.send.window;
        if self.send_fixed { window } else { window.min(worth_storing(min_rtt)) }
    }

    /// What the peer's primary may send beyond the bytes already taken.
    pub(crate) fn receive(&self) -> u64 {
        self.receive.window
    }

    /// Bytes were taken from the primary.
    pub(crate) fn on_taken(&mut self, bytes: u64) {
        self.taken += bytes;
        self.offer.on_read(bytes);
    }

    /// Either loop has sent bytes for the first time.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Adapts the receive window to the traffic; returns it if it has grown.
    pub(crate) fn tune_receive(&mut self, now: Instant, rtt: Duration) -> Option<u64> {
        self.receive.on_moved(now, self.taken, rtt).then_some(self.receive.window)
    }

    /// The same of the send window.
    pub(crate) fn tune_send(&mut self, now: Instant, rtt: Duration) -> Option<u64> {
        self.send.on_moved(now, self.sent, rtt).then_some(self.send.window)
    }
}
