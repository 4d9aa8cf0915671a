//! Whether a transfer makes progress.

use crate::error::{Error, Result};

use std::time::{Duration, Instant};

/// Detects a transfer that stopped.
pub(crate) struct Moved {
    patience: Duration,
    at: Instant,
    delivered: u64,
}

impl Moved {
    /// A transfer that begins now, and may pause for this long.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, at: Instant::now(), delivered: 0 }
    }

    /// The other side has reported something.
    pub(crate) fn on_message(&mut self) {
        self.at = Instant::now();
    }

    /// Compares the delivered bytes with those of the last call.
    ///
    /// # Errors
    /// [`ErrorKind::Stalled`] if they have been the same for too long.
    pub(crate) fn check(&mut self, delivered: u64) -> Result<()> {
        if delivered != self.delivered {
            self.delivered = delivered;
            self.at = Instant::now();
        }
        if self.at.elapsed() > self.patience { Err(Error::stalled(self.patience)) } else { Ok(()) }
    }
}
