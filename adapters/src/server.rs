//! The connections of one endpoint.

use std::{pin::pin, time::Duration};

use rc3_h3::rc3_net::{Connection, Endpoint, Incoming, Slots, Uses};
use tokio::{sync::watch, task::JoinSet};

use crate::{requests::serve_requests, service::HttpService};

/// How an endpoint serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// How long requests may take to complete after the shutdown began; 10 s by default.
    pub shutdown_limit: Duration,
    /// Most connections at once; 1024 by default. A further one takes the slot of another one as [`Slots`] describes: one
    /// without a request gives way first, one with requests only to a client of a site with fewer connections.
    pub connections_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { shutdown_limit: Duration::from_secs(10), connections_max: 1024 }
    }
}

/// Answers the requests that `endpoint` receives, until `shutdown` resolves and the connections are over.
///
/// `service_for` returns the service for a connection, such as a clone of an axum `Router`, perhaps with the connection
/// as an extension. A connection that fails ends without effect on the others. After `shutdown` the endpoint refuses new
/// connections, and those that are open end as [`crate::serve_connection`] describes.
///
/// # Panics
/// Outside of a tokio runtime with a clock.
pub async fn serve<S>(
    endpoint: Endpoint,
    service_for: impl Fn(&Connection) -> S + Clone + Send + 'static,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) where
    S: HttpService,
{
    let (stop, stopped) = watch::channel(false);
    let slots = Slots::new(settings.connections_max, settings.connections_max);
    let mut open = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            () = &mut shutdown => break,
        };
        let Some(incoming) = incoming else { break };
        while open.try_join_next().is_some() {}
        let Some((incoming, mut slot)) = slots.admit(incoming) else { continue };
        let mut stopped = stopped.clone();
        let service_for = service_for.clone();
        open.spawn(async move {
            let stopped = async move { _ = stopped.wait_for(|stopped| *stopped).await };
            let serving =
                serve_incoming(incoming, service_for, slot.uses(), settings.shutdown_limit, stopped);
            // h3 closes a connection that is dropped, and the handles of its streams go with it.
            slot.run(serving).await;
        });
    }
    stop.send_replace(true);
    drain(&endpoint, open).await;
}

/// Refuses new connections until the open ones are over.
async fn drain(endpoint: &Endpoint, mut open: JoinSet<()>) {
    // A client that is refused tries another server at once; one that is ignored waits.
    let refusing = async {
        while let Some(incoming) = endpoint.accept().await {
            incoming.refuse();
        }
    };
    tokio::select! {
        () = async { while open.join_next().await.is_some() {} } => {}
        // The endpoint was closed, and its connections with it.
        () = refusing => {}
    }
}

async fn serve_incoming<S>(
    incoming: Incoming,
    service_for: impl Fn(&Connection) -> S,
    uses: Uses,
    limit: Duration,
    stopped: impl Future<Output = ()>,
) where
    S: HttpService,
{
    let mut stopped = pin!(stopped);
    let connection = tokio::select! {
        connected = incoming => connected,
        // A handshake that has not completed carries no request.
        () = &mut stopped => return,
    };
    let Ok(connection) = connection else { return };
    let service = service_for(&connection);
    // The connection's own failure: its client has the code.
    let in_use = move || uses.begin();
    let _ = serve_requests(rc3_h3::Connection::new(connection), service, in_use, stopped, limit).await;
}
