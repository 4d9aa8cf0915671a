//! Where a ticket comes from: the command line, a file, standard input or the environment.

use std::{
    env,
    ffi::OsStr,
    io::{self, IsTerminal, Write},
    path::Path,
};

use super::high::UsageError;
use crate::transfer::{
    ticket::Ticket,
    ticket_file::{first_line, read},
};

/// The environment variable for a ticket.
pub const VARIABLE: &str = "RC3_TICKET";
/// The argument that stands for standard input.
const INPUT: &str = "-";

/// Whether an argument is a ticket or `-`, rather than a path.
pub(super) fn is_ticket(argument: &OsStr) -> bool {
    argument == INPUT || argument.to_str().is_some_and(|text| text.starts_with("rc3://"))
}

/// The ticket from the command line, a file or standard input.
///
/// # Errors
/// When there are two, or when it is unreadable or damaged.
pub(super) fn named(argument: Option<&str>, file: Option<&Path>) -> Result<Option<Ticket>, UsageError> {
    let input = || {
        if io::stdin().is_terminal() {
            let _ = write!(io::stderr(), "ticket: ");
        }
        first_line(io::stdin()).map_err(UsageError::Input)
    };
    let line = match (argument, file) {
        (Some(_), Some(_)) => return Err(UsageError::TwoTickets),
        (Some(INPUT), None) => input()?,
        (Some(text), None) => text.to_owned(),
        (None, Some(path)) if path == INPUT => input()?,
        (None, Some(path)) => {
            read(path).map_err(|error| UsageError::TicketFile { path: path.to_owned(), error })?
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(line.parse()?))
}

/// The ticket in the environment.
///
/// # Errors
/// When it is damaged.
pub(super) fn in_environment() -> Result<Option<Ticket>, UsageError> {
    match env::var(VARIABLE) {
        Ok(line) if !line.is_empty() => Ok(Some(line.parse()?)),
        _ => Ok(None),
    }
}
