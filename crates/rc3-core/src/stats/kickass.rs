//! Router signals of a connection, and the resulting mode.

use std::time::{Duration, Instant};

use kickass::endpoint::Mode;

use crate::units::Rate;

/// A sender that follows signalled rates (Kick-Ass §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KickAssStats {
    /// The current mode.
    pub mode: Mode,
    /// When it last entered or left Kick-Ass mode.
    pub since: Instant,
    /// Time in Kick-Ass mode up to then; if that is the current mode, the time since is not included.
    pub steered: Duration,
    /// The last signalled rate, followed or not, in bits per second of IP packets.
    pub rate: Option<Rate>,
    /// Signals received.
    pub signals: u64,
    /// Changes of mode.
    pub switches: SwitchCounts,
    /// Whether packets may be fragmented. They may not once fragments are known not to reach the peer.
    pub fragments: bool,
}

impl KickAssStats {
    /// Time in Kick-Ass mode until `now`.
    pub fn steered_until(&self, now: Instant) -> Duration {
        match self.mode {
            Mode::KickAss => self.steered + now.saturating_duration_since(self.since),
            Mode::Tcp(_) => self.steered,
        }
    }
}

/// How often the mode has changed, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SwitchCounts {
    /// To Kick-Ass mode.
    pub to_kickass: u64,
    /// To TCP mode because no rate was signalled for a round trip; also if no packet was sent that could have carried
    /// one.
    pub by_silence: u64,
    /// To TCP mode because of a loss or a mark.
    pub by_congestion: u64,
}
