//! Replaces the steering without the feature `kickass`: connections follow no router signals.

use std::{sync::Arc, time::Instant};

use quinn_proto::congestion::ControllerFactory;

use super::Quic;
use crate::{config::TransportConfig, laws::departures::DepartureRate};

/// No connection has one.
#[derive(Debug, Clone, Copy)]
pub(super) enum SharedSteering {}

impl SharedSteering {
    pub(super) fn of(_now: Instant, _config: &TransportConfig) -> Option<Self> {
        None
    }

    pub(super) fn factory(&self, _config: &TransportConfig) -> Arc<dyn ControllerFactory + Send + Sync> {
        match *self {}
    }

    pub(super) fn pace(&self) -> Option<DepartureRate> {
        match *self {}
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match *self {}
    }

    pub(super) fn handle_timeout(&self, _now: Instant) -> u64 {
        match *self {}
    }
}

impl Quic {
    pub(super) fn on_probe(&mut self, _now: Instant, _bytes: usize) {}

    pub(super) fn may_fragment(&self, _now: Instant) -> bool {
        false
    }

    pub(super) fn on_fragmentable(&mut self, _now: Instant, _bytes: usize) {}
}
