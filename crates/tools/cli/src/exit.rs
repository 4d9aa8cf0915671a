//! Exit codes for scripts.

use std::{io, process::ExitCode};

use crate::output;

/// Exit codes of commands without special failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandExit {
    /// Everything requested is done.
    Success = 0,
    /// It failed.
    Failure = 1,
    /// The command line is invalid.
    Usage = 2,
}

impl CommandExit {
    /// The table of the codes, for `--help`.
    pub const HELP: &str = "\
Exit codes:
    0  done
    1  failed
    2  wrong usage";

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The exit code of `command` for this result; prints an error.
    pub fn of(command: &str, done: io::Result<()>) -> Self {
        match done {
            Ok(()) => Self::Success,
            Err(error) => {
                output::complain(command, &error, output::SYSTEM_HINT);
                Self::Failure
            }
        }
    }
}

impl From<CommandExit> for ExitCode {
    fn from(exit: CommandExit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_code() {
        let listed: Vec<u8> = CommandExit::HELP
            .lines()
            .filter_map(|line| line.split_whitespace().next()?.parse().ok())
            .collect();
        assert_eq!(
            listed,
            [CommandExit::Success, CommandExit::Failure, CommandExit::Usage].map(CommandExit::code)
        );
    }
}
