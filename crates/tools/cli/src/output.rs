//! Writing to a terminal or a pipe.
//!
//! Standard output carries results, standard error everything about them. A reader of standard output that
//! goes away is no failure.

use std::{
    fmt::Display,
    io::{self, Write},
};

/// What to do about a system that says no.
pub const SYSTEM_HINT: &str = "check free space, permissions and limits of the system";

/// Writes to standard output.
///
/// # Errors
/// Whatever the system says, but for a reader that went away.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// One line for what went wrong in `command`, and one for what to do about it.
pub fn complain(command: &str, error: &dyn Display, hint: &str) {
    let _ = writeln!(io::stderr(), "{command}: {error}\nhint: {hint}");
}
