//! What the terminal can show, and writing to it.
//!
//! Standard output carries results, standard error everything about them. A reader of standard output that
//! goes away is no failure.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

#[cfg(unix)]
use crate::demo::bars::Look;

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

/// One line for what went wrong and one for what to do about it.
pub fn complain(error: &dyn std::fmt::Display, hint: &str) {
    complain_as("rc3", error, hint);
}

/// The same by a command of another name.
pub fn complain_as(command: &str, error: &dyn std::fmt::Display, hint: &str) {
    let _ = writeln!(io::stderr(), "{command}: {error}\nhint: {hint}");
}

/// What standard output can show.
#[cfg(unix)]
pub fn look() -> Look {
    let terminal = io::stdout().is_terminal();
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let columns = console::Term::stdout().size_checked().map_or(80, |(_, columns)| usize::from(columns));
    Look {
        unicode: is_utf8(|name| env::var(name).ok()),
        colour: terminal && !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb"),
        width: columns,
    }
}

/// Whether the locale's characters are UTF-8: the first of its variables that is set decides.
#[cfg(unix)]
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()))
        .is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn first_locale_variable_that_is_set_decides() {
        let with = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
            is_utf8(|name| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()))
        };
        assert!(with(&[("LANG", "en_GB.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!with(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
        assert!(!with(&[]));
    }
}
