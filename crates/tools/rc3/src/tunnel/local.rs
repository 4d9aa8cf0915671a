//! Listeners for TCP connections, at either end.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};

use super::CONNECTIONS_MAX;
use crate::{log, sparse::Sparse};

/// Time between two lines about connections that wait.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// Pause after a failure to accept, such as one for want of file descriptors.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// Serves each connection in a task, for ever. While no permit is free, connections wait in the system's backlog, which is
/// reported at most once a minute. Dropping the future ends the tasks.
pub(super) async fn accept<F>(
    listener: Arc<TcpListener>,
    permits: Arc<Semaphore>,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (mut tasks, mut reported) = (JoinSet::new(), Sparse::new(REPORT_EVERY));
    let mut report = |what: &str| {
        if reported.pass(Instant::now()).is_some() {
            log::line(what);
        }
    };
    loop {
        if permits.available_permits() == 0 {
            report(&format!(
                "{CONNECTIONS_MAX} connections are open, the most of a tunnel: others wait until one ends"
            ));
        }
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        while tasks.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                let served = serve(stream);
                tasks.spawn(async move {
                    served.await;
                    drop(permit);
                });
            }
            Err(error) => {
                report(&format!("cannot accept connections: {error}"));
                sleep(FAILURE_PAUSE).await;
            }
        }
    }
}
