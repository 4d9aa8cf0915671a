//! How long an endpoint lives, and why it ends.

use std::io;

use rc3_core::{ConnectionError, TransportError, TransportErrorCode};

/// The reason without a cause.
const DRIVER_LOST: &str = "the endpoint's driver has ended";

/// Whether an endpoint is in use, closed, or has failed.
#[derive(Debug, Default)]
pub(crate) struct Lifetime {
    /// By `Endpoint::close`.
    pub(super) closed: bool,
    /// Connections that this side has closed, and how many of these closes were sent.
    pub(crate) closes: u64,
    pub(crate) closes_sent: u64,
    /// There is no handle to the endpoint any more.
    pub(super) released: bool,
    /// Why the driver has ended, if it has.
    pub(crate) failure: Option<String>,
}

impl Lifetime {
    /// The driver is about to end because of a socket.
    pub(crate) fn fail(&mut self, error: &io::Error) {
        self.failure = Some(format!("{DRIVER_LOST}: a socket is unusable: {error}"));
    }

    /// Whether some peer was not sent a close, and will be.
    pub(crate) fn owes_close(&self) -> bool {
        self.closes_sent < self.closes && self.failure.is_none()
    }

    /// The driver has ended; returns the error of the connections.
    pub(super) fn on_driver_lost(&mut self) -> ConnectionError {
        internal_error(self.failure.get_or_insert_with(|| DRIVER_LOST.to_string()))
    }
}

/// The error of every operation that needs a driver.
pub(super) fn driver_lost() -> ConnectionError {
    internal_error(DRIVER_LOST)
}

fn internal_error(reason: &str) -> ConnectionError {
    let mut error = TransportError::from(TransportErrorCode::INTERNAL_ERROR);
    error.reason = reason.to_string();
    ConnectionError::TransportError(error)
}
