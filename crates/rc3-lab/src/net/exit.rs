//! Exit codes of `rc3-lab net`.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetExit {
    /// Everything that was asked for is done.
    Success,
    /// It could not be done.
    Failure,
    /// The command line makes no sense.
    Usage,
    /// The host lacks something.
    Missing,
    /// The machine is too busy to measure.
    Busy,
    /// Interrupted by a signal.
    Interrupted,
}

impl NetExit {
    /// The table of the codes, for `--help`.
    pub const HELP: &str = "\
Exit codes:
    0  done
    1  failed
    2  wrong usage
    3  this host lacks something, rc3-lab net check names it
    4  the machine is too busy to measure
    130  interrupted";

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Missing => 3,
            Self::Busy => 4,
            // As shells report SIGINT.
            Self::Interrupted => 130,
        }
    }
}

impl From<NetExit> for ExitCode {
    fn from(exit: NetExit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_code() {
        let first = |line: &str| line.split_whitespace().next()?.parse::<u8>().ok();
        let listed: Vec<u8> = NetExit::HELP.lines().filter_map(first).collect();
        let all = [
            NetExit::Success,
            NetExit::Failure,
            NetExit::Usage,
            NetExit::Missing,
            NetExit::Busy,
            NetExit::Interrupted,
        ];
        assert_eq!(listed, all.map(NetExit::code));
    }
}
