//! Exit codes for scripts.

use std::process::ExitCode;

use crate::error::{Error, ErrorKind};

/// How the command ended, with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything requested is done.
    Success = 0,
    /// It failed.
    Failure = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The received content differs from the sent content.
    NotVerified = 3,
    /// The other side refused, or its certificate does not match the ticket.
    Refused = 4,
    /// Some files exist with other content and were not replaced; all others arrived.
    Exists = 5,
    /// The check found a problem that the user can fix.
    Findings = 6,
    /// Some files were skipped; all others were sent.
    LeftOut = 7,
    /// `rc3 copy` cannot run ssh.
    NoSsh = 8,
    /// The other host has no rc3.
    NoPeer = 9,
    /// The other host has another version of rc3.
    Version = 10,
    /// UDP to the other host does not answer.
    NoUdp = 11,
    /// The user pressed Ctrl-C.
    Interrupted = 130,
    /// ssh failed.
    Ssh = 255,
}

impl Exit {
    /// The table of the codes, for `--help`.
    pub const HELP: &str = "\
Exit codes:
    0  done
    1  failed
    2  wrong usage
    3  what arrived is not what was sent
    4  refused by the other side, or not the right receiver
    5  some files exist with other content; they were not replaced, all others arrived
    6  rc3 check found a problem that you can fix
    7  some files were skipped; all others arrived
    8  rc3 copy cannot run ssh
    9  the other host has no rc3
   10  the other host has another version of rc3
   11  UDP to the other host does not answer
  130  interrupted
  255  ssh failed";

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::NotVerified => Self::NotVerified,
            ErrorKind::Refused | ErrorKind::WrongPeer => Self::Refused,
            ErrorKind::Conflicts => Self::Exists,
            ErrorKind::LeftOut(_) => Self::LeftOut,
            ErrorKind::Interrupted | ErrorKind::Terminated => Self::Interrupted,
            ErrorKind::NoSsh => Self::NoSsh,
            ErrorKind::Ssh => Self::Ssh,
            ErrorKind::NoPeer => Self::NoPeer,
            ErrorKind::Version => Self::Version,
            ErrorKind::NoUdp => Self::NoUdp,
            _ => Self::Failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_code() {
        let all = [
            Exit::Success,
            Exit::Failure,
            Exit::Usage,
            Exit::NotVerified,
            Exit::Refused,
            Exit::Exists,
            Exit::Findings,
            Exit::LeftOut,
            Exit::NoSsh,
            Exit::NoPeer,
            Exit::Version,
            Exit::NoUdp,
            Exit::Interrupted,
            Exit::Ssh,
        ];
        let listed: Vec<u8> =
            Exit::HELP.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
        assert_eq!(listed, all.map(Exit::code));
    }
}
