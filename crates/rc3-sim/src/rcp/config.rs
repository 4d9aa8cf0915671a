//! Settings of an RCP host.

use std::time::Duration;

use rc3_core::units::Rate;

/// Bytes on the wire of a packet that carries none of the application: as TCP over IPv4.
pub(super) const HEADER_BYTES: usize = 40;

/// Settings of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostConfig {
    /// Bytes of the application in a packet at most: 1460.
    pub mss: u32,
    /// The rate each flow requests; `None` (the default) requests as much as routers grant.
    pub rate_max: Option<Rate>,
    /// Least time without an answer after which packets count as lost: 200 ms, as Linux has it for TCP.
    pub rto_min: Duration,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self { mss: 1460, rate_max: None, rto_min: Duration::from_millis(200) }
    }
}

impl HostConfig {
    /// The rate to ask for, bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.rate_max.map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64 / 8.0)
    }
}
