//! What a handle of an endpoint, or of a handshake that waits at it, holds.

use std::sync::Arc;

use crate::{shared::Shared, socket};

/// What all clones of an endpoint, and the handshakes that wait, share.
pub(crate) struct EndpointRef {
    pub(crate) shared: Arc<Shared>,
    /// For sockets to come.
    pub(crate) socket: socket::Options,
}

impl Drop for EndpointRef {
    fn drop(&mut self) {
        self.shared.with(|state| {
            state.release_endpoint();
        });
    }
}
