//! A congestion controller: additive increase from the first round trip on, multiplicative decrease once per round trip.

use std::{any::Any, sync::Arc, time::Instant};

use rc3_core::{
    RttEstimator, TransportConfig,
    congestion::{Controller, ControllerFactory},
};
use rc3_sim::registry::{CongestionControl, CongestionRequest, Fault};
use serde::Deserialize;

/// The entry of the registry.
pub(crate) const AIMD: CongestionControl = CongestionControl {
    about: "Additive increase without slow start. Parameters: `increase`, packets per round trip (1); `decrease`, a share (0.5).",
    configure,
};

/// Its parameters in scenario files.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Packets that the window grows by in each round trip.
    increase: f64,
    /// Share of the window that is left after a loss.
    decrease: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { increase: 1.0, decrease: 0.5 }
    }
}

fn configure(request: &CongestionRequest<'_>, transport: &mut TransportConfig) -> Result<(), Fault> {
    let settings: Settings = request.parameters.read()?;
    if settings.increase <= 0.0 {
        return Err(Fault::new("parameters.increase", "not above zero"));
    }
    if !(0.0..1.0).contains(&settings.decrease) {
        return Err(Fault::new("parameters.decrease", "not within 0 to 1"));
    }
    transport.congestion_controller_factory(Arc::new(Factory(settings)));
    Ok(())
}

/// Makes a controller for each connection.
struct Factory(Settings);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let mtu = f64::from(current_mtu);
        Box::new(Window { settings: self.0, mtu, bytes: PACKETS_INITIAL * mtu, recovers_since: now })
    }
}

const PACKETS_INITIAL: f64 = 4.0;

/// The window of one connection.
#[derive(Debug, Clone)]
struct Window {
    settings: Settings,
    mtu: f64,
    bytes: f64,
    /// Losses of packets sent before belong to the same event.
    recovers_since: Instant,
}

impl Controller for Window {
    fn on_ack(&mut self, _: Instant, _: Instant, bytes: u64, app_limited: bool, _: &RttEstimator) {
        if !app_limited {
            self.bytes += self.settings.increase * self.mtu * bytes as f64 / self.bytes;
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, _persistent: bool, _lost: u64) {
        if sent > self.recovers_since {
            self.recovers_since = now;
            self.bytes = (self.settings.decrease * self.bytes).max(2.0 * self.mtu);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
    }

    fn window(&self) -> u64 {
        self.bytes as u64
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        (PACKETS_INITIAL * self.mtu) as u64
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
