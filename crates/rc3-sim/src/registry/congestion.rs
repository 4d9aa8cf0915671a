//! Congestion controllers by name.

use std::{collections::BTreeMap, sync::Arc};

use rc3_core::{
    Congestion::{Background, Cubic, KickAss, NewReno},
    TransportConfig,
    congestion::ControllerFactory,
};

use super::{Fault, Parameters};
use crate::{pcc::PccConfig, startup::FastStart};

/// A congestion controller of the primary loop.
#[derive(Debug, Clone, Copy)]
pub struct CongestionControl {
    /// One line for users, with the parameters.
    pub about: &'static str,
    /// Sets the controller of all connections of a scheme, usually with
    /// [`TransportConfig::congestion_controller_factory`]. It is called once when the scenario is read, to check the parameters,
    /// and once for each world. Keys of its faults are relative to the scheme, `parameters.gain`.
    pub configure: Configure,
}

/// The scheme of a congestion controller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CongestionRequest<'a> {
    /// The scheme's table `parameters`.
    pub parameters: &'a Parameters,
    /// Seed of everything random in it.
    pub seed: u64,
    /// Bytes in flight that an earlier connection found to fit on the path, if one has taught the sender.
    pub remembered: Option<u64>,
}

/// A controller of this crate, without parameters.
fn own(
    factory: impl ControllerFactory + Send + Sync + 'static,
    request: &CongestionRequest<'_>,
    transport: &mut TransportConfig,
) -> Result<(), Fault> {
    transport.congestion_controller_factory(Arc::new(factory));
    request.parameters.none()
}

/// One of rc3-core.
fn core(
    congestion: rc3_core::Congestion,
    request: &CongestionRequest<'_>,
    transport: &mut TransportConfig,
) -> Result<(), Fault> {
    transport.congestion(congestion);
    request.parameters.none()
}

/// Sets the controller of a scheme, see [`CongestionControl::configure`].
type Configure = fn(&CongestionRequest<'_>, &mut TransportConfig) -> Result<(), Fault>;

/// Name, description and function of the built-in ones. quinn-proto's BBR is not among them: see
/// [`rc3_core::Congestion::Bbr`].
const BUILT_IN: [(&str, &str, Configure); 8] = [
    ("newreno", "NewReno (RFC 9002 §7).", |request, to| core(NewReno, request, to)),
    ("cubic", "CUBIC (RFC 9438).", |request, to| core(Cubic, request, to)),
    (
        "kickass",
        "The rates that routers signal, and NewReno without signals (Kick-Ass §2.3).",
        |request, to| core(KickAss, request, to),
    ),
    (
        "background",
        "Two packets per round trip, and the rest by RLP, all at the lowest priority.",
        |request, to| core(Background, request, to),
    ),
    ("pcc", "PCC Allegro (NSDI 2015).", |request, to| own(PccConfig::new(request.seed), request, to)),
    ("suss", "A start like SUSS (SIGCOMM 2024) before CUBIC.", |request, to| {
        own(FastStart::Suss, request, to)
    }),
    ("rapid-start", "Rapid Start (draft-kazuho-ccwg-rapid-start-02) before CUBIC.", |request, to| {
        own(FastStart::RapidStart, request, to)
    }),
    (
        "careful-resume",
        "Careful Resume (RFC 9959) before CUBIC, where an earlier flow has taught the sender; without memory CUBIC.",
        |request, to| match request.remembered {
            Some(window) => own(FastStart::CarefulResume(window), request, to),
            None => core(Cubic, request, to),
        },
    ),
];

/// The built-in ones by name.
pub(super) fn built_in() -> BTreeMap<String, CongestionControl> {
    let named =
        |(name, about, configure): (&str, _, _)| (name.to_owned(), CongestionControl { about, configure });
    BUILT_IN.map(named).into()
}
