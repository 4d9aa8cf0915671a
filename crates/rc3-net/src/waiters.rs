//! Who waits for what, where there may be many.

use tokio::sync::Notify;

/// Who waits for what on one endpoint.
#[derive(Debug, Default)]
pub(crate) struct EndpointWaiters {
    /// Somebody wants to connect, or nobody ever will.
    pub(crate) incoming: Notify,
    /// The last connection is gone.
    pub(crate) idle: Notify,
}

/// Who waits for what on one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionWaiters {
    /// The handshake has come on: its data is known, it is complete, or it failed.
    pub(crate) handshake: Notify,
    /// Streams may be opened again, by direction.
    pub(crate) available: [Notify; 2],
    /// The peer opened streams, by direction.
    pub(crate) opened: [Notify; 2],
    pub(crate) datagram_received: Notify,
    pub(crate) datagrams_unblocked: Notify,
    /// The connection is lost.
    pub(crate) closed: Notify,
}
