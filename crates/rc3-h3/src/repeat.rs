//! Futures that are started again after each result.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use rc3_net::{Connection, ConnectionError};

/// One run. It owns its handle to the connection, so that it can outlive the poll that started it.
pub(crate) type RepeatRun<T> = Pin<Box<dyn Future<Output = Result<T, ConnectionError>> + Send + Sync>>;

/// Opens or accepts streams, one after the other.
pub(crate) struct Repeat<T> {
    start: fn(Connection) -> RepeatRun<T>,
    running: Option<RepeatRun<T>>,
}

impl<T> Repeat<T> {
    pub(crate) fn new(start: fn(Connection) -> RepeatRun<T>) -> Self {
        Self { start, running: None }
    }

    /// The next result.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &Connection,
    ) -> Poll<Result<T, ConnectionError>> {
        let running = self.running.get_or_insert_with(|| (self.start)(connection.clone()));
        let result = ready!(running.as_mut().poll(cx));
        self.running = None;
        Poll::Ready(result)
    }
}
