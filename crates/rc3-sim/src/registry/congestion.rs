//! Congestion controllers by name.

use std::sync::Arc;

use rc3_core::TransportConfig;

use super::{Fault, Parameters};
use crate::{pcc, startup::FastStart};

/// A congestion controller of the primary loop.
pub trait CongestionControl: Send + Sync {
    /// One line for users, with the parameters.
    fn about(&self) -> &str;

    /// Sets the controller of all connections of a scheme, usually with
    /// [`TransportConfig::congestion_controller_factory`]. Everything random follows from `seed`. It is called once when the
    /// scenario is read, to check the parameters, and once for each world.
    ///
    /// # Errors
    /// If the parameters are invalid; keys are relative to the scheme, `parameters.gain`.
    fn configure(
        &self,
        parameters: &Parameters,
        seed: u64,
        transport: &mut TransportConfig,
    ) -> Result<(), Fault>;

    /// Gives a controller that remembers, after [`Self::configure`], the bytes in flight that an earlier connection found to fit on
    /// the path. Others do nothing.
    fn remember(&self, _window: u64, _transport: &mut TransportConfig) {}
}

/// A controller of rc3-core.
struct Core(rc3_core::Congestion, &'static str);

impl CongestionControl for Core {
    fn about(&self) -> &str {
        self.1
    }

    fn configure(
        &self,
        parameters: &Parameters,
        _: u64,
        transport: &mut TransportConfig,
    ) -> Result<(), Fault> {
        transport.congestion(self.0);
        parameters.none()
    }
}

/// PCC Allegro.
struct Pcc;

impl CongestionControl for Pcc {
    fn about(&self) -> &str {
        "PCC Allegro (NSDI 2015)."
    }

    fn configure(
        &self,
        parameters: &Parameters,
        seed: u64,
        transport: &mut TransportConfig,
    ) -> Result<(), Fault> {
        transport.congestion_controller_factory(Arc::new(pcc::PccConfig::new(seed)));
        parameters.none()
    }
}

/// A fast start before CUBIC.
struct Start(FastStart, &'static str);

impl CongestionControl for Start {
    fn about(&self) -> &str {
        self.1
    }

    fn configure(
        &self,
        parameters: &Parameters,
        _: u64,
        transport: &mut TransportConfig,
    ) -> Result<(), Fault> {
        transport.congestion_controller_factory(Arc::new(self.0));
        parameters.none()
    }
}

/// Careful Resume, which without memory is CUBIC.
struct Careful;

impl CongestionControl for Careful {
    fn about(&self) -> &str {
        "Careful Resume (RFC 9959) before CUBIC, where an earlier flow has taught the sender; without memory CUBIC."
    }

    fn configure(
        &self,
        parameters: &Parameters,
        _: u64,
        transport: &mut TransportConfig,
    ) -> Result<(), Fault> {
        transport.congestion(rc3_core::Congestion::Cubic);
        parameters.none()
    }

    fn remember(&self, window: u64, transport: &mut TransportConfig) {
        transport.congestion_controller_factory(Arc::new(FastStart::CarefulResume(window)));
    }
}

/// The built-in ones. quinn-proto's BBR is not among them: see [`rc3_core::Congestion::Bbr`].
pub(super) fn built_in() -> [(&'static str, Arc<dyn CongestionControl>); 7] {
    use rc3_core::Congestion::{Cubic, KickAss, NewReno};
    [
        ("newreno", Arc::new(Core(NewReno, "NewReno (RFC 9002 §7)."))),
        ("cubic", Arc::new(Core(Cubic, "CUBIC (RFC 9438)."))),
        (
            "kickass",
            Arc::new(Core(
                KickAss,
                "The rates that routers signal, and NewReno without signals (Kick-Ass §2.3).",
            )),
        ),
        ("pcc", Arc::new(Pcc)),
        ("suss", Arc::new(Start(FastStart::Suss, "A start like SUSS (SIGCOMM 2024) before CUBIC."))),
        (
            "rapid-start",
            Arc::new(Start(
                FastStart::RapidStart,
                "Rapid Start (draft-kazuho-ccwg-rapid-start-02) before CUBIC.",
            )),
        ),
        ("careful-resume", Arc::new(Careful)),
    ]
}
