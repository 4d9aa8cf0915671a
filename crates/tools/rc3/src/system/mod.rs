//! What differs between operating systems.
//!
//! `unix` and `other` export the same functions, so that no other module asks which system it is built for, except where
//! Linux offers more than Unix (ACLs, holes, `syncfs`). `other` is Windows in practice. What it lacks it reports as absent:
//! no permission bits, no owner, no count of free bytes; signals, limits and syncs do nothing there.

/// Whether the process or system had no free file descriptor.
pub fn lacks_descriptors(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| DESCRIPTOR_FAULTS.contains(&code))
}

#[cfg(any(not(unix), test))]
mod other;
#[cfg(unix)]
mod unix;

use crate::error::{ErrorKind, Result};

/// What asks this process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stop {
    /// Ctrl-C, or the end of its terminal or ssh session.
    #[default]
    Interrupt,
    /// SIGTERM, by which service managers end services.
    Terminate,
}

impl Stop {
    /// The outcome of a service: that its manager ends it is no failure.
    ///
    /// # Errors
    /// Other ones of `outcome`.
    pub(crate) fn conclude(self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error)
                if self == Self::Terminate
                    && matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Terminated) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }
}

#[cfg(not(unix))]
pub use other::*;
#[cfg(unix)]
pub use unix::*;
