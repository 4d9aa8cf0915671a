//! PCC Allegro (Dong, Li, Zarchy, Godfrey, Schapira, *PCC: Re-architecting Congestion Control for Consistent High
//! Performance*, NSDI 2015): a sender tries rates, and moves to those that have served it better.
//!
//! Time is cut into [monitor](Monitor) intervals, in each of which packets leave at one rate; a round trip later it is
//! known how many of them arrived, which makes a [`utility`]. The [`RateSearch`] chooses rates by that: it doubles
//! while utility rises, then tries a little more and a little less, twice each, and goes on where both trials point.
//!
//! [`PccConfig`] makes controllers for [`rc3_core::TransportConfig::congestion_controller_factory`], on simulated and real
//! networks alike. They name a pacing rate; a window is too coarse: with few packets in a round trip it cannot express rates
//! that differ by one per cent.

mod controller;
mod law;
mod monitor;
#[cfg(test)]
mod tests;

pub use controller::PccConfig;
pub use law::{RateSearch, RateTrial, Role};
pub use monitor::Monitor;

/// What a sender has of sending so many bytes per second of which a share is lost, 0 to 1 (§2.2, the "safe" function):
/// what arrives, as long as no more than about a twentieth is lost, less what does not.
pub fn utility(rate: f64, loss: f64) -> f64 {
    /// Where the throughput ceases to count, and how suddenly.
    const LOSS_MAX: f64 = 0.05;
    const STEEPNESS: f64 = 100.0;
    let counts = 1.0 / (1.0 + (STEEPNESS * (loss - LOSS_MAX)).exp());
    rate * (1.0 - loss) * counts - rate * loss
}
