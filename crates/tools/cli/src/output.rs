//! Writing to a terminal or a pipe.
//!
//! Standard output carries results; progress and errors go to standard error. A standard output whose reader has left is
//! not an error; one that takes no bytes for another reason, such as a full disk, is.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::{Mutex, PoisonError},
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

/// The first error of [`emit`].
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes one line to standard output while the command goes on. [`finish`] reports an error.
pub fn emit(line: impl AsRef<[u8]>) {
    let mut out = io::stdout().lock();
    let mut write = || {
        out.write_all(line.as_ref())?;
        out.write_all(b"\n")?;
        // The reader may wait for the line.
        out.flush()
    };
    if let Err(error) = write()
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Whether standard output has taken every line of [`emit`]. Reports an error once.
///
/// # Errors
/// The first error since the last call.
pub fn finish() -> io::Result<()> {
    match FAILED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))),
        None => Ok(()),
    }
}

/// Prints one line with the error of `command`, and one with a hint.
pub fn complain(command: &str, error: &dyn Display, hint: &str) {
    let _ = writeln!(io::stderr(), "{command}: {error}\nhint: {hint}");
}
