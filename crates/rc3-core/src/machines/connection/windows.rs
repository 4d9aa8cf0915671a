//! Windows that follow the traffic: of the peer's primary, of its RLP loop, and of the bytes stored for sending. The
//! law is in [`crate::laws::window`]; this module decides what is measured against which window.

use std::time::{Duration, Instant};

use super::Connection;
use crate::{
    config::TransportConfig,
    laws::window::{WindowTuner, worth_storing},
    seams::qlog::QlogEvent,
};

/// A smaller change of the offer than this fraction of the window is not worth a frame.
const STEPS_PER_WINDOW: u64 = 8;

/// The windows of a connection, except RLP's, which belongs to its credit.
#[derive(Debug)]
pub(super) struct Windows {
    receive: WindowTuner,
    send: WindowTuner,
    /// The application has set the send window.
    send_fixed: bool,
    /// Upper bound of the bytes that one stream stores for sending.
    pub(super) stream_send: u64,
    /// The last offer to the primary.
    offered: u64,
    /// Upper bound of received and unread bytes.
    memory: u64,
    /// Bytes taken from the primary so far.
    pub(super) taken: u64,
    /// Bytes either loop has sent for the first time (or handed to the primary, in plain QUIC).
    pub(super) sent: u64,
}

impl Windows {
    pub(super) fn new(config: &TransportConfig) -> Self {
        let receive = config.receive_tuner();
        let memory = u64::from(config.receive_window).saturating_add(config.rlp_window);
        let (send, stream_send) = (config.send_tuner(), config.stream_send_window);
        Self {
            receive,
            send,
            send_fixed: false,
            stream_send,
            offered: receive.window(),
            memory,
            taken: 0,
            sent: 0,
        }
    }

    /// Upper bound of received and unread bytes: the largest windows of both loops.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Fixes the send window at `bytes`.
    pub(super) fn fix_send(&mut self, bytes: u64) {
        self.send = WindowTuner::new(bytes, bytes);
        self.send_fixed = true;
    }

    /// Like [`Self::fix_send`] for the receive window. Granted bytes may still arrive.
    pub(super) fn fix_receive(&mut self, bytes: u64) {
        self.memory = self.memory.saturating_add(bytes.saturating_sub(self.receive.window()));
        self.receive = WindowTuner::new(bytes, bytes);
    }

    /// Upper bound of bytes stored for sending on a path with this least round-trip time.
    pub(super) fn store(&self, min_rtt: Duration) -> u64 {
        let window = self.send.window();
        if self.send_fixed { window } else { window.min(worth_storing(min_rtt)) }
    }

    /// What the peer's primary may send beyond the bytes already taken, within memory.
    pub(super) fn receive(&self) -> u64 {
        self.receive.window()
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
        if let Some(bytes) = self.overlay.as_mut().and_then(|overlay| overlay.recv_credit.tune(now, rtt)) {
            self.trace.emit(now, || QlogEvent::WindowGrown { window: "rlp", bytes });
            self.grant();
        }
    }

    /// Sets what the primary offers the peer: its window, but within memory. Bytes read out of order count as consumed
    /// for quinn-proto, and those that wait behind a missing one would be stored in addition to whole windows. A
    /// missing byte itself never waits for credit: later ones have used it.
    pub(super) fn offer_receive_window(&mut self) {
        let window = self.windows.receive.window();
        let offer = window.min(self.windows.memory.saturating_sub(self.received_held.all.bytes));
        let change = offer.abs_diff(self.windows.offered);
        if change > 0 && (offer == window || change >= window / STEPS_PER_WINDOW) {
            tracing::debug!(remote = %self.primary.addresses().0, offer, window, "receive window changes");
            self.windows.offered = offer;
            self.primary.set_receive_window(offer);
        }
    }
}
