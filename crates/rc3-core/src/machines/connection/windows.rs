//! Windows that follow the traffic: of the peer's primary, of its RLP loop, and of the bytes stored for sending. The
//! law is in [`crate::laws::window`]; this module decides what is measured against which window.

use std::time::{Duration, Instant};

use super::Connection;
use crate::{
    config::TransportConfig,
    laws::{
        offer::Offer,
        window::{WindowTuner, worth_storing},
    },
    quic::Side,
    seams::qlog::QlogEvent,
};

/// The windows of a connection, except RLP's, which belongs to its credit.
#[derive(Debug)]
pub(super) struct Windows {
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
    pub(super) taken: u64,
    /// Bytes either loop has sent for the first time (or handed to the primary, in plain QUIC).
    pub(super) sent: u64,
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

    /// Upper bound of received and unread bytes of both loops in this many streams.
    pub(super) fn received_max(&self, streams: u64) -> u64 {
        self.received.min(self.stream_receive.saturating_mul(2 * streams.max(1)))
    }

    /// RLP's part of `received_max`: what the primary's window leaves, or half if streams have smaller windows.
    pub(super) fn rlp_part(&self, received_max: u64) -> u64 {
        let rest = received_max.saturating_sub(self.receive.window());
        if received_max < self.received { rest.max(received_max / 2) } else { rest }
    }

    /// Fixes the send window at `bytes`.
    pub(super) fn fix_send(&mut self, bytes: u64) {
        self.send = WindowTuner::new(bytes, bytes);
        self.send_fixed = true;
    }

    /// Sets the bound of both loops; the primary's window is at once all of it, or half if there is an RLP loop.
    pub(super) fn set_receive(&mut self, bytes: u64, beside_rlp: bool) {
        let least = if beside_rlp { bytes / 2 } else { bytes };
        self.received = bytes;
        self.receive = WindowTuner::new(self.receive.window().max(least), bytes);
    }

    /// There is no RLP loop: what was kept for it is the primary's.
    pub(super) fn leave_to_primary(&mut self) {
        if self.receive.window() == self.received / 2 {
            self.receive.raise(self.received);
        }
    }

    /// Upper bound of bytes stored for sending on a path with this least round-trip time.
    pub(super) fn store(&self, min_rtt: Duration) -> u64 {
        let window = self.send.window();
        if self.send_fixed { window } else { window.min(worth_storing(min_rtt)) }
    }

    /// What the peer's primary may send beyond the bytes already taken, within `room` for them.
    pub(super) fn receive(&self, room: u64) -> u64 {
        self.receive.window().min(room)
    }
}

impl Connection {
    /// Adapts the windows to the traffic. Call it after every input and command.
    pub(super) fn tune_windows(&mut self, now: Instant) {
        let rtt = self.primary.rtt();
        let Windows { receive, send, taken, sent, .. } = &mut self.windows;
        if receive.on_moved(now, *taken, rtt) {
            let bytes = receive.window();
            self.trace.emit(now, || QlogEvent::WindowGrown { window: "receive", bytes });
        }
        if send.on_moved(now, *sent, rtt) {
            let bytes = send.window();
            tracing::debug!(remote = %self.primary.addresses().0, bytes, "send window grows");
            self.trace.emit(now, || QlogEvent::WindowGrown { window: "send", bytes });
            self.primary.set_send_window(bytes);
            self.wake_writers();
        }
        self.offer_receive_window();
        let rlp_part = self.rlp_part();
        let rlp = self.overlay.as_mut().and_then(|overlay| overlay.recv_credit.tune(now, rtt, rlp_part));
        if let Some(bytes) = rlp {
            self.trace.emit(now, || QlogEvent::WindowGrown { window: "rlp", bytes });
            self.grant();
        }
    }

    /// Sets what the primary offers the peer: its window, within memory. Bytes read out of order count as consumed for
    /// quinn-proto, and those that wait behind a missing one would be stored in addition to whole windows. A missing
    /// byte itself never waits for credit: later ones have used it.
    pub(super) fn offer_receive_window(&mut self) {
        let window = self.windows.receive(u64::MAX);
        let offer = self.windows.receive(self.primary_room());
        if let Some(offer) = self.windows.offer.change(offer, window) {
            tracing::debug!(remote = %self.primary.addresses().0, offer, window, "receive window changes");
            self.primary.set_receive_window(offer);
        }
    }
}
