//! How long an endpoint lives, and why it ends.

use std::io;

use rc3_core::{ConnectionError, TransportError, TransportErrorCode};

/// The reason without a cause.
const DRIVER_LOST: &str = "the endpoint's driver has ended";

/// Whether an endpoint is in use, closed, or has failed.
#[derive(Debug, Default)]
pub(super) struct Lifetime {
    /// By `Endpoint::close`.
    closed: bool,
    /// There is no handle to the endpoint any more.
    released: bool,
    /// Why the driver has ended, if it has.
    failure: Option<String>,
}

impl Lifetime {
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn release(&mut self) {
        self.released = true;
    }

    /// Whether a handle to the endpoint exists.
    pub(super) fn is_held(&self) -> bool {
        !self.released
    }

    /// Whether no connection may begin.
    pub(super) fn is_closed(&self) -> bool {
        self.closed || self.failure.is_some()
    }

    /// Why the driver has ended, if it has.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The driver is about to end because of a socket.
    pub(super) fn fail(&mut self, error: &io::Error) {
        self.failure = Some(format!("{DRIVER_LOST}: a socket is unusable: {error}"));
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
