//! Work on tokio that reports to a Python callable.

use std::{io, thread};

use pyo3::prelude::*;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{failure::Failure, runtime::runtime};

/// A running operation.
#[pyclass(frozen, module = "rc3._rc3")]
pub(crate) struct Operation {
    stop: CancellationToken,
}

#[pymethods]
impl Operation {
    /// Asks it to end early. It still reports its end.
    fn stop(&self) {
        self.stop.cancel();
    }
}

/// Passes JSON events to the callable. Their number is bounded by the files of the transfer.
pub(crate) type Events = mpsc::UnboundedSender<String>;

impl Operation {
    /// Runs `work` and calls `report(kind, value)`: `"event"` with its JSON for each event, and at last `"end"` with an
    /// empty value, or `"failed"` with class, message, hint and exit code. Only a thread of its own waits for the
    /// interpreter: not one of tokio's, of which the transfers need some.
    pub(crate) fn with_events<F>(
        report: Py<PyAny>,
        stop: CancellationToken,
        work: impl FnOnce(CancellationToken, Events) -> F,
    ) -> io::Result<Self>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let tokio = &runtime()?.tokio;
        let (events, mut arriving) = mpsc::unbounded_channel();
        let work = work(stop.clone(), events);
        thread::Builder::new().name("rc3 reports".to_owned()).spawn(move || {
            let working = tokio.spawn(work);
            while let Some(event) = arriving.blocking_recv() {
                call(&report, "event", event);
            }
            match tokio.block_on(working).unwrap_or_else(|panicked| Err(io::Error::other(panicked).into())) {
                Ok(()) => call(&report, "end", ()),
                Err(failure) => call(&report, "failed", failure.into_parts()),
            }
        })?;
        Ok(Self { stop })
    }

    /// Runs `work` until it ends or is stopped, and calls `report("end", value)` or `report("error", exception)`. After a
    /// stop the error is of the kind `Interrupted`.
    pub(crate) fn with_value<T>(
        report: Py<PyAny>,
        stop: CancellationToken,
        work: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<Self>
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
    {
        let (tokio, stopped) = (&runtime()?.tokio, stop.clone());
        // A task of its own: what panics is reported, too.
        let working = tokio.spawn(async move { stopped.run_until_cancelled(work).await });
        tokio.spawn(async move {
            let outcome = match working.await {
                Ok(outcome) => outcome.unwrap_or_else(|| Err(io::ErrorKind::Interrupted.into())),
                Err(panicked) => Err(io::Error::other(panicked)),
            };
            tokio::task::spawn_blocking(move || match outcome {
                Ok(value) => call(&report, "end", value),
                Err(error) => call(&report, "error", PyErr::from(error)),
            });
        });
        Ok(Self { stop })
    }
}

/// Calls the callable, unless the interpreter is shutting down.
fn call(report: &Py<PyAny>, kind: &str, value: impl for<'py> IntoPyObject<'py>) {
    Python::try_attach(|py| {
        if let Err(error) = report.call1(py, (kind, value)) {
            error.write_unraisable(py, Some(report.bind(py)));
        }
    });
}

/// An observer that passes events on as JSON.
pub(crate) fn observer(events: Events) -> rc3::transfer::progress::Observer {
    rc3::transfer::progress::Observer::new(move |event| {
        if let Ok(text) = serde_json::to_string(event) {
            // Without a reader the operation has ended.
            let _ = events.send(text);
        }
    })
}
