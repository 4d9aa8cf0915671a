//! Where a ticket comes from: the command line, a file, standard input or the environment.

use std::{
    env,
    ffi::OsStr,
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    path::Path,
};

use rc3_cli::output;

use crate::{
    error::{Error, Result},
    log,
    rendezvous::code::{Code, Place},
    transfer::{
        paths::{printable, printable_path},
        send::Invitation,
        ticket::{Ticket, TicketError},
        ticket_file::{TicketFile, first_line, read},
    },
};

/// The environment variable for a ticket.
pub const VARIABLE: &str = "RC3_TICKET";
/// The environment variable for a rendezvous.
const MEET_VARIABLE: &str = "RC3_MEET";
/// The argument that stands for standard input.
const INPUT: &str = "-";
/// The ways to pass a ticket.
const WAYS: &str =
    "pass it by --ticket-file FILE, by RC3_TICKET, or as last argument: TICKET, or `-` for standard input";

/// Whether an argument is a ticket, a code or `-`, rather than a path.
pub(super) fn is_ticket(argument: &OsStr) -> bool {
    let is_code = |text| Code::is_meant(text) && !Path::new(text).exists();
    argument == INPUT || argument.to_str().is_some_and(|text| text.starts_with("rc3://") || is_code(text))
}

/// The rendezvous of the command line, otherwise that in the environment.
///
/// # Errors
/// When there is none, or a malformed one.
pub(super) fn place(typed: Option<Place>) -> Result<Place> {
    let hint = "write --meet HOST:PORT or set RC3_MEET, to where somebody runs `rc3 meet`";
    let named = || env::var(MEET_VARIABLE).ok().filter(|text| !text.is_empty());
    let none = || Error::usage("no rendezvous", hint);
    let wrong = |error| Error::usage(format!("RC3_MEET is no rendezvous: {error}"), hint);
    typed.map_or_else(|| named().ok_or_else(none)?.parse().map_err(wrong), Ok)
}

/// How to find a receiver: as [`found`], or by a code at a rendezvous.
///
/// # Errors
/// As [`found`] and [`place`].
pub(super) fn invitation(
    argument: Option<&str>,
    file: Option<&Path>,
    meet: Option<Place>,
) -> Result<Option<Invitation>> {
    let Some(line) = line(argument, file)? else { return Ok(None) };
    if !Code::is_meant(&line) {
        return Ok(Some(parse(&line)?.into()));
    }
    let mut code: Code = line.parse()?;
    let place = place(meet.or_else(|| code.place.take()))?;
    Ok(Some(Invitation::Code(code, place)))
}

/// The ticket from the command line, a file or standard input, otherwise that in the environment.
///
/// # Errors
/// When there are two, or when it is unreadable or damaged.
pub(super) fn found(argument: Option<&str>, file: Option<&Path>) -> Result<Option<Ticket>> {
    line(argument, file)?.map(|line| parse(&line)).transpose()
}

/// The same, as text.
fn line(argument: Option<&str>, file: Option<&Path>) -> Result<Option<String>> {
    let input = || {
        if io::stdin().is_terminal() {
            let _ = write!(io::stderr(), "ticket: ");
        }
        first_line(io::stdin()).map_err(|error| unreadable("standard input", error))
    };
    Ok(Some(match (argument, file) {
        (Some(_), Some(_)) => return Err(two()),
        (Some(INPUT), None) => input()?,
        (Some(text), None) => text.to_owned(),
        (None, Some(path)) if path == INPUT => input()?,
        (None, Some(path)) => read(path).map_err(|error| unreadable(&printable_path(path), error))?,
        (None, None) => match env::var(VARIABLE) {
            Ok(line) if !line.is_empty() => line,
            _ => return Ok(None),
        },
    }))
}

/// There is no ticket.
pub(super) fn none() -> Error {
    Error::usage("no ticket", WAYS)
}

/// The last argument should be a ticket, and is something else.
pub(super) fn neither(argument: &OsStr) -> Error {
    // What follows may be a secret.
    let shown = argument.to_string_lossy();
    let shown = printable(shown.split_once('#').map_or(&*shown, |(address, _)| address));
    let hint = "check the path; a ticket is the whole line that the receiver printed, rc3://...";
    Error::usage(format!("{shown} is neither a file nor a ticket"), hint)
}

/// A ticket as an argument, and another in a file.
pub(super) fn two() -> Error {
    Error::usage("two tickets: one as an argument, one by --ticket-file", "omit one of them")
}

fn unreadable(from: &str, error: io::Error) -> Error {
    Error::usage(format!("cannot read the ticket from {from}: {error}"), WAYS)
}

fn parse(line: &str) -> Result<Ticket> {
    line.parse().map_err(|error: TicketError| {
        let hint = match error {
            TicketError::Version(_) => "use the same version of rc3 on both sides",
            _ => "copy the whole line that the other side printed",
        };
        Error::usage(format!("not a ticket: {error}"), hint)
    })
}

/// Writes the ticket of a side that listens, at `bind` if that was chosen, to a file, which is removed on drop, or prints it; `command` is what the other
/// side runs.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn publish(
    ticket: &Ticket,
    bind: Option<SocketAddr>,
    file: Option<&Path>,
    command: &str,
) -> Result<Option<TicketFile>> {
    ticket.warning(bind).iter().for_each(log::line);
    let Some(path) = file else {
        log::line(format_args!("on the other machine: {command} -, then paste this ticket:"));
        output::print(&format!("{ticket}\n")).map_err(|error| Error::local("print the ticket", error))?;
        return Ok(None);
    };
    let written = TicketFile::write(path, ticket).map_err(|error| Error::local("write the ticket", error))?;
    let path = printable_path(written.path());
    let text = format!("the ticket is in {path}; on the other machine: {command} --ticket-file {path}");
    log::line(text);
    Ok(Some(written))
}
