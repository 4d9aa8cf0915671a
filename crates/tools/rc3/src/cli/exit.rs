//! Exit codes for scripts.

use std::process::ExitCode;

use crate::{
    bench::error::BenchError,
    copy::error::CopyError,
    transfer::error::TransferError,
    tunnel::{error::TunnelError, open::Answer},
};

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything requested is done.
    Success,
    /// It failed.
    Failure,
    /// The command line is invalid.
    Usage,
    /// The received content differs from the sent content.
    NotVerified,
    /// The other side refused, or its certificate does not match the ticket.
    Refused,
    /// Some files exist with other content and were not replaced; all others arrived.
    Exists,
    /// Some files were skipped; all others were sent.
    LeftOut,
    /// The doctor found a problem that the user can fix.
    Findings,
    /// `rc3 copy` cannot run ssh.
    NoSsh,
    /// The other host has no rc3.
    NoPeer,
    /// The other host has another version of rc3.
    Version,
    /// UDP to the other host does not answer.
    NoUdp,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// ssh failed.
    Ssh,
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
    6  rc3 doctor found a problem that you can fix
    7  some files were skipped; all others arrived
    8  rc3 copy cannot run ssh
    9  the other host has no rc3
   10  the other host has another version of rc3
   11  UDP to the other host does not answer
  130  interrupted
  255  ssh failed";

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::NotVerified => 3,
            Self::Refused => 4,
            Self::Exists => 5,
            Self::Findings => 6,
            Self::LeftOut => 7,
            Self::NoSsh => 8,
            Self::NoPeer => 9,
            Self::Version => 10,
            Self::NoUdp => 11,
            Self::Interrupted => 130,
            Self::Ssh => 255,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

impl From<&TransferError> for Exit {
    fn from(error: &TransferError) -> Self {
        match error {
            TransferError::NotVerified(_) => Self::NotVerified,
            TransferError::WrongReceiver(_) | TransferError::Unauthorised(_) | TransferError::Refused(_) => {
                Self::Refused
            }
            TransferError::Conflicts(_) => Self::Exists,
            TransferError::LeftOut(_) => Self::LeftOut,
            TransferError::Interrupted { .. } => Self::Interrupted,
            TransferError::Pipe(error) => Self::from(&**error),
            _ => Self::Failure,
        }
    }
}

impl From<&CopyError> for Exit {
    fn from(error: &CopyError) -> Self {
        match error {
            CopyError::NoSsh { .. } => Self::NoSsh,
            CopyError::Ssh(_) => Self::Ssh,
            CopyError::NoPeer { .. } => Self::NoPeer,
            CopyError::Version { .. } => Self::Version,
            CopyError::NoUdp { .. } => Self::NoUdp,
            CopyError::Transfer(error) => Self::from(error),
            _ => Self::Failure,
        }
    }
}

impl From<&BenchError> for Exit {
    fn from(error: &BenchError) -> Self {
        match error {
            BenchError::Damaged => Self::NotVerified,
            BenchError::WrongListener(_) | BenchError::Unauthorised | BenchError::Refused(_) => Self::Refused,
            BenchError::Interrupted => Self::Interrupted,
            _ => Self::Failure,
        }
    }
}

impl From<&TunnelError> for Exit {
    fn from(error: &TunnelError) -> Self {
        match error {
            TunnelError::WrongPeer(_)
            | TunnelError::Unauthorised
            | TunnelError::Refused(_)
            | TunnelError::RemoteListen { .. }
            | TunnelError::Target { answer: Answer::NotAllowed, .. } => Self::Refused,
            TunnelError::Interrupted => Self::Interrupted,
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
