//! `rc3 send` and `rc3 copy` as operations.

use std::ffi::OsString;

use clap::Parser;
use pyo3::prelude::*;
use rc3::{
    NAME,
    cli::{high::Command, low::LowArgs},
    copy::copy_until,
    transfer::{
        progress::Reporter,
        send::{Content, send_until},
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    failure::Failure,
    operation::{Operation, observer},
};

/// Starts a transfer from the words of a command line, which the package makes of typed parameters: parameters and options
/// of the command have one definition.
#[pyfunction]
pub(crate) fn transfer(words: Vec<OsString>, report: Py<PyAny>) -> PyResult<Operation> {
    let operation = Operation::with_events(report, CancellationToken::new(), |stop, events| async move {
        let mut reporter = Reporter::observed(observer(events));
        let stop = stop.cancelled_owned();
        match resolve(words)? {
            Command::Send(job, _) if matches!(job.content, Content::Paths(..)) => {
                Ok(send_until(stop, *job, &mut reporter).await?)
            }
            Command::Copy(job, _) => Ok(copy_until(stop, *job, &mut reporter).await?),
            _ => Err(Failure::usage("neither send nor copy", "call rc3.send or rc3.copy")),
        }
    })?;
    Ok(operation)
}

/// The job that the words describe.
pub(crate) fn resolve(words: Vec<OsString>) -> Result<Command, Failure> {
    let low = LowArgs::try_parse_from([OsString::from(NAME)].into_iter().chain(words))?;
    Ok(Command::resolve(low)?)
}
