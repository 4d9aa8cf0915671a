//! Waiters of events that may have many.

use tokio::sync::Notify;

/// Waiters of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct EndpointWaiters {
    /// A peer wants to connect, or none ever will.
    pub(crate) incoming: Notify,
    /// The last connection has ended.
    pub(crate) idle: Notify,
}

/// Waiters of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionWaiters {
    /// The handshake has progressed: its data is known, it is complete, or it failed.
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
