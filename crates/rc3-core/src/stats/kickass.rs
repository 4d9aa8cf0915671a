//! What routers say to a connection, and what comes of it.

use std::time::{Duration, Instant};

use kickass::endpoint::Mode;

use crate::units::Rate;

/// A sender that follows the rates of routers where they tell any (Kick-Ass §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KickAssStats {
    /// Who decides how fast it is.
    pub mode: Mode,
    /// When it last went into or out of Kick-Ass mode.
    pub since: Instant,
    /// Time in Kick-Ass mode up to then; if that is the mode, it grows since.
    pub steered: Duration,
    /// The rate signalled last, followed or not, in bits per second of IP packets.
    pub rate: Option<Rate>,
    /// Signals received.
    pub signals: u64,
    /// Changes of modes.
    pub switches: SwitchCounts,
    /// Whether packets may be fragmented. They may not be once it shows that fragments do not reach the peer.
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
    /// To TCP mode because no rate was signalled for a round trip; also where nothing was sent that could have carried one.
    pub by_silence: u64,
    /// To TCP mode because of a loss or a mark.
    pub by_congestion: u64,
}
