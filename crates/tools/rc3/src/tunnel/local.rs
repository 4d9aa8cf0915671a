//! Listeners for TCP connections, at either end.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::sleep,
};

/// Pause after a failure to accept, such as one for want of file descriptors.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// Serves each connection in a task, for ever. While no permit is free, connections wait in the system's backlog.
/// Dropping the future ends the tasks.
pub(super) async fn accept<F>(
    listener: Arc<TcpListener>,
    permits: Arc<Semaphore>,
    serve: impl Fn(TcpStream, OwnedSemaphorePermit) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    // The semaphore is never closed.
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        while tasks.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                tasks.spawn(serve(stream, permit));
            }
            Err(_) => sleep(FAILURE_PAUSE).await,
        }
    }
}
