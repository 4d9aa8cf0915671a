//! What an application may see of the congestion controller.

use std::{any::Any, time::Instant};

use quinn_proto::congestion::{Controller, ControllerMetrics};

/// The numbers of a controller at one time, which nothing changes any more. The controller itself is wrapped, and a copy
/// of it would be taken for that of a new path.
#[derive(Debug, Clone)]
pub(super) struct CongestionState {
    pub(super) window: u64,
    pub(super) ssthresh: Option<u64>,
    pub(super) pacing_rate: Option<u64>,
    pub(super) initial_window: u64,
}

impl Controller for CongestionState {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window;
        metrics.ssthresh = self.ssthresh;
        metrics.pacing_rate = self.pacing_rate;
        metrics
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
