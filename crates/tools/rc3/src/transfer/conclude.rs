//! The end of a command's work, which its peers should learn the reason of.

use std::{future::Future, pin::pin, time::Duration};

use rc3_net::{Endpoint, VarInt};
use tokio::time::timeout;

/// Time limit for the reason to reach the peers.
const PATIENCE: Duration = Duration::from_secs(1);

/// The outcome of `work`, or the error of `stopped` if that comes first. Then closes the endpoint, with the code and
/// reason that `parting` makes of the error, and saves its paths.
///
/// The streams of work that was stopped end only afterwards: peers would take an end that arrives first for the reason.
pub(crate) async fn conclude<T, E>(
    endpoint: &Endpoint,
    work: impl Future<Output = Result<T, E>>,
    stopped: impl Future<Output = E>,
    parting: impl FnOnce(Option<&E>) -> (VarInt, &'static str),
) -> Result<T, E> {
    let mut work = pin!(work);
    let outcome = tokio::select! {
        outcome = work.as_mut() => outcome,
        error = stopped => Err(error),
    };
    let (code, reason) = parting(outcome.as_ref().err());
    endpoint.close(code, reason.as_bytes());
    let _ = timeout(PATIENCE, endpoint.wait_idle()).await;
    endpoint.save_paths().await;
    outcome
}
