//! What the two directions of a stream know of each other.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::guard::Refused;

/// Shared by both halves of a stream, also after they are split.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exchange(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    refused: OnceLock<Refused>,
    any_content: AtomicBool,
}

impl Exchange {
    /// Why this end refuses the message that it receives. Then it sends none either (RFC 9114 §4.1.2).
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.0.refused.get().copied()
    }

    pub(crate) fn refuse(&self, refused: Refused) {
        // The first reason remains.
        let _ = self.0.refused.set(refused);
    }

    /// Whether the request that was sent allows an answer whose content differs from its `content-length`.
    pub(crate) fn allows_any_content(&self) -> bool {
        self.0.any_content.load(Relaxed)
    }

    pub(crate) fn allow_any_content(&self) {
        self.0.any_content.store(true, Relaxed);
    }
}
