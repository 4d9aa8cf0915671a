//! `rc3 send` and `rc3 copy` as operations.

use std::ffi::OsString;

use clap::Parser;
use pyo3::prelude::*;
use rc3::{
    NAME,
    cli::low::{LowArgs, LowCommand},
    copy::copy_until,
    transfer::{progress::Reporter, send::send_until},
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
        match parse(words)? {
            // The package names no pipe.
            LowCommand::Send(args) => Ok(send_until(stop, args.resolve()?, &mut reporter).await?),
            LowCommand::Copy(args) => Ok(copy_until(stop, args.resolve()?, &mut reporter).await?),
            _ => Err(Failure::usage("neither send nor copy", "call rc3.send or rc3.copy")),
        }
    })?;
    Ok(operation)
}

/// The command that the words describe.
pub(crate) fn parse(words: Vec<OsString>) -> Result<LowCommand, Failure> {
    Ok(LowArgs::try_parse_from([OsString::from(NAME)].into_iter().chain(words))?.command)
}
