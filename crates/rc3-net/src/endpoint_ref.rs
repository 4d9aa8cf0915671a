//! The shared part of handles to an endpoint or to a waiting handshake.

use std::sync::Arc;

use crate::{shared::Shared, socket};

/// State shared by all clones of an endpoint and its waiting handshakes.
pub(crate) struct EndpointRef {
    pub(crate) shared: Arc<Shared>,
    /// For future sockets.
    pub(crate) socket: socket::Options,
}

impl Drop for EndpointRef {
    fn drop(&mut self) {
        self.shared.with(|state| {
            state.release_endpoint();
        });
    }
}
