//! Writing to a terminal or a pipe.
//!
//! Standard output carries results; progress and errors go to standard error. A closed standard output is not an error.

use std::{
    fmt::Display,
    io::{self, Write},
};

/// The hint for system errors.
pub const SYSTEM_HINT: &str = "check free space, permissions and the system's limits";

/// Writes to standard output.
///
/// # Errors
/// Any system error, except that the reader closed the pipe.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints one line with the error of `command`, and one with a hint.
pub fn complain(command: &str, error: &dyn Display, hint: &str) {
    let _ = writeln!(io::stderr(), "{command}: {error}\nhint: {hint}");
}
