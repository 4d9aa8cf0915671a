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
    parting: impl FnOnce(Option<&E>) -> Parting,
) -> Result<T, E> {
    let mut work = pin!(work);
    let outcome = tokio::select! {
        outcome = work.as_mut() => outcome,
        error = stopped => Err(error),
    };
    let parting = parting(outcome.as_ref().err());
    parting.close(endpoint);
    parting.leave(endpoint).await;
    outcome
}

/// How a side closes its connections.
pub(crate) struct Parting {
    pub(crate) code: VarInt,
    pub(crate) reason: &'static str,
    /// Whether the peers need the close. If not, it is sent once, and its loss delays only a peer that waits for it.
    pub(crate) is_needed: bool,
}

impl Parting {
    /// Closes the endpoint.
    pub(crate) fn close(&self, endpoint: &Endpoint) {
        endpoint.close(self.code, self.reason.as_bytes());
    }

    /// Waits until the peers were sent the close, and saves the endpoint's paths.
    pub(crate) async fn leave(self, endpoint: &Endpoint) {
        let sent = async {
            if self.is_needed { endpoint.wait_idle().await } else { endpoint.wait_closes_sent().await }
        };
        let _ = timeout(PATIENCE, sent).await;
        endpoint.save_paths().await;
    }
}
