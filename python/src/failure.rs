//! Errors on their way to Python, where each becomes an exception.

use std::io;

use rc3::{
    cli::exit::Exit,
    error::{Error, ErrorKind},
};

/// Exit code of the command for wrong usage.
const USAGE: u8 = 2;

/// What the exception shows.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The class in `rc3._errors`.
    class: &'static str,
    message: String,
    hint: String,
    exit_code: u8,
}

impl Failure {
    /// An argument that makes no sense.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { class: "UsageError", message: message.into(), hint: hint.into(), exit_code: USAGE }
    }

    /// Class, message, hint and exit code.
    pub(crate) fn into_parts(self) -> (&'static str, String, String, u8) {
        (self.class, self.message, self.hint, self.exit_code)
    }
}

/// The class for an exit code, where programs have a reason to tell it apart.
fn class(exit: Exit) -> &'static str {
    match exit {
        Exit::Usage => "UsageError",
        Exit::NotVerified => "NotVerifiedError",
        Exit::Refused => "RefusedError",
        Exit::Exists => "ConflictError",
        Exit::LeftOut => "LeftOutError",
        Exit::NoUdp | Exit::Ssh => "ConnectionError",
        _ => "Error",
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = Exit::from(&error);
        let class = match error.kind() {
            // Another try may succeed.
            ErrorKind::Resolve
            | ErrorKind::Connect
            | ErrorKind::Busy
            | ErrorKind::Stalled
            | ErrorKind::Lost
            | ErrorKind::Gone => "ConnectionError",
            _ => class(exit),
        };
        Self { class, message: error.to_string(), hint: error.hint().to_owned(), exit_code: exit.code() }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        // The first line names the option; usage and tips follow.
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        Self::usage(first.trim_start_matches("error: "), "parameters are the options of the rc3 command")
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let hint = "check the address and the system's limits".to_owned();
        Self { class: "Error", message: error.to_string(), hint, exit_code: Exit::Failure.code() }
    }
}
