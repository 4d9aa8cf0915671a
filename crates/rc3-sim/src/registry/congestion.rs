//! Congestion controllers by name.

use std::sync::Arc;

use rc3_core::TransportConfig;

use super::{Fault, Parameters};
use crate::pcc;

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

/// The built-in ones. quinn-proto's BBR is not among them: see [`rc3_core::Congestion::Bbr`].
pub(super) fn built_in() -> [(&'static str, Arc<dyn CongestionControl>); 4] {
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
    ]
}
