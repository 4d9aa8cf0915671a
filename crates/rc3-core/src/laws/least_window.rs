//! The least congestion window, of a primary whose bytes RLP carries.

use std::{any::Any, sync::Arc, time::Instant};

use quinn_proto::{
    RttEstimator,
    congestion::{Controller, ControllerFactory},
};

/// Packets of the window after the first acknowledgment: the least that a sender keeps (RFC 9002 §7.2).
const PACKETS: u64 = 2;

/// Builds a [`LeastWindow`] for each path.
#[derive(Debug)]
pub(crate) struct LeastWindowConfig {
    /// Bytes until the first acknowledgment, so that a handshake takes no round trip more.
    pub(crate) initial_window: u64,
}

impl ControllerFactory for LeastWindowConfig {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(LeastWindow { initial_window: self.initial_window, mtu: current_mtu, acked: false })
    }
}

/// The window of a path. Neither acknowledgments nor losses change it.
#[derive(Debug, Clone)]
struct LeastWindow {
    initial_window: u64,
    mtu: u16,
    acked: bool,
}

impl Controller for LeastWindow {
    fn on_ack(
        &mut self,
        _now: Instant,
        _sent: Instant,
        _bytes: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        self.acked = true;
    }

    fn on_congestion_event(
        &mut self,
        _now: Instant,
        _sent: Instant,
        _is_persistent_congestion: bool,
        _lost_bytes: u64,
    ) {
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
    }

    fn window(&self) -> u64 {
        // A packet leaves while in flight + mtu < window.
        if self.acked { PACKETS * u64::from(self.mtu) + 1 } else { self.initial_window }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
