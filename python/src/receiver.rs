//! `rc3 recv`: a port with a ticket.

use std::{ffi::OsString, sync::Arc};

use pyo3::{exceptions::PyValueError, prelude::*};
use rc3::{
    cli::low::LowCommand,
    error::Error,
    transfer::{progress::Reporter, receive},
};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    failure::Failure,
    operation::{Operation, observer},
    runtime::runtime,
    transfer::parse,
};

/// A port with a ticket.
#[pyclass(frozen, module = "rc3._rc3")]
pub(crate) struct Receiver {
    /// `None` once it is closed.
    listening: Arc<Mutex<Option<receive::Receiver>>>,
    closing: CancellationToken,
    /// The line for senders.
    #[pyo3(get)]
    ticket: String,
}

#[pymethods]
impl Receiver {
    /// Listens with the settings of a command line.
    ///
    /// Raises `ValueError` with the parts of a failure.
    #[new]
    fn new(py: Python<'_>, words: Vec<OsString>) -> PyResult<Self> {
        let listening = py.detach(|| listen(words));
        let listening = listening.map_err(|failure| PyValueError::new_err(failure.into_parts()))?;
        let ticket = listening.ticket().to_string();
        let closing = CancellationToken::new();
        Ok(Self { listening: Arc::new(Mutex::new(Some(listening))), closing, ticket })
    }

    /// Receives one complete transfer.
    fn recv(&self, report: Py<PyAny>) -> PyResult<Operation> {
        let listening = Arc::clone(&self.listening);
        let work = |stop: CancellationToken, events| async move {
            let mut reporter = Reporter::observed(observer(events));
            // Another call may be receiving. A closed receiver reports that, although it is stopped too.
            let mut listening = tokio::select! {
                biased;
                listening = listening.lock() => listening,
                () = stop.cancelled() => return Err(Error::interrupted(0).into()),
            };
            let receiver = listening.as_mut().ok_or_else(closed)?;
            Ok(receiver.receive(stop.cancelled_owned(), &mut reporter).await?)
        };
        Ok(Operation::with_events(report, self.closing.child_token(), work)?)
    }

    /// Ends the running transfer if any, and closes the port.
    fn close(&self, report: Py<PyAny>) -> PyResult<Operation> {
        self.closing.cancel();
        let listening = Arc::clone(&self.listening);
        let work = |_, _| async move {
            let receiver = listening.lock().await.take();
            match receiver {
                Some(receiver) => Ok(receiver.close(Ok(())).await?),
                None => Ok(()),
            }
        };
        Ok(Operation::with_events(report, CancellationToken::new(), work)?)
    }
}

fn closed() -> Failure {
    Failure::usage("the receiver is closed", "make a new one; with `identity` its ticket is the same")
}

fn listen(words: Vec<OsString>) -> Result<receive::Receiver, Failure> {
    let job = match parse(words)? {
        LowCommand::Recv(args) => Some(args.resolve()?),
        _ => None,
    };
    let other = || Failure::usage("not a receiver of files", "call rc3.Receiver");
    let job = job.filter(|job| job.dir.is_some()).ok_or_else(other)?;
    let _inside = runtime()?.tokio.enter();
    Ok(receive::Receiver::listen(job)?)
}
