//! Errors of the command line, as text or as a JSON event.

use std::{
    env,
    fmt::Display,
    io::{self, Write},
};

use clap::error::ErrorKind;
use rc3_cli::output;

use super::exit::Exit;
use crate::{
    NAME,
    transfer::progress::{Event, json},
};

/// Prints what clap found, and returns the exit code. Help and version are no errors.
pub fn misused(error: &clap::Error) -> Exit {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked || !wants_json() {
        return match error.print().and_then(|()| io::stdout().flush()) {
            _ if !asked => Exit::Usage,
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                output::complain(NAME, &error, output::SYSTEM_HINT);
                Exit::Failure
            }
            _ => Exit::Success,
        };
    }
    // The first paragraph has the error, the others repeat the usage.
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or(&text);
    let message = first.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ");
    complain(true, &message, "run the command with --help");
    Exit::Usage
}

/// Whether a program reads the output, by the words of the command line, which need not be valid.
pub fn wants_json() -> bool {
    env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// Prints an error and its hint, as text or as a JSON event.
pub fn complain(as_json: bool, error: &dyn Display, hint: &str) {
    if as_json {
        json(&Event::Error { message: error.to_string(), hint });
    } else {
        output::complain(NAME, error, hint);
    }
}
