//! Errors on their way to Python, where each becomes an exception.

use std::io;

use rc3::{
    cli::exit::Exit,
    error::{Error, ErrorKind},
};

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
        let (message, hint) = (message.into(), hint.into());
        Self { class: "UsageError", message, hint, exit_code: Exit::Usage.code() }
    }

    /// Class, message, hint and exit code.
    pub(crate) fn into_parts(self) -> (&'static str, String, String, u8) {
        (self.class, self.message, self.hint, self.exit_code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let class = match error.kind() {
            ErrorKind::Usage => "UsageError",
            ErrorKind::NotVerified => "NotVerifiedError",
            ErrorKind::Refused | ErrorKind::WrongPeer => "RefusedError",
            ErrorKind::Conflicts => "ConflictError",
            ErrorKind::LeftOut(_) => "LeftOutError",
            // Another try may succeed.
            ErrorKind::Resolve
            | ErrorKind::Connect
            | ErrorKind::Busy
            | ErrorKind::Stalled
            | ErrorKind::Lost
            | ErrorKind::Gone
            | ErrorKind::NoUdp
            | ErrorKind::Ssh => "ConnectionError",
            _ => "Error",
        };
        let (message, hint) = (error.to_string(), error.hint().to_owned());
        Self { class, message, hint, exit_code: Exit::from(&error).code() }
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
