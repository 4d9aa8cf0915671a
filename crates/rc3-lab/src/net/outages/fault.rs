//! What happens to a command.

use std::fmt;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutageFault {
    Nothing,
    /// Routers forward nothing for so many seconds.
    Blackout(u64),
    /// The near side's card has no address for so many seconds.
    Unplugged(u64),
    /// The near side has another address at once.
    Moved,
    /// The near side's process stands still for so many seconds.
    NearStopped(u64),
    FarStopped(u64),
    /// The far side is killed, and started again with the same identity.
    FarKilled,
}

pub(super) const FAULTS: [OutageFault; 9] = [
    OutageFault::Nothing,
    OutageFault::Blackout(8),
    OutageFault::Blackout(30),
    OutageFault::Blackout(60),
    OutageFault::Unplugged(15),
    OutageFault::Moved,
    OutageFault::NearStopped(40),
    OutageFault::FarStopped(40),
    OutageFault::FarKilled,
];

impl fmt::Display for OutageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("none"),
            Self::Blackout(seconds) => write!(f, "no packet passes for {seconds} s"),
            Self::Unplugged(seconds) => write!(f, "card down for {seconds} s"),
            Self::Moved => f.write_str("new address"),
            Self::NearStopped(seconds) => write!(f, "SIGSTOP here for {seconds} s"),
            Self::FarStopped(seconds) => write!(f, "SIGSTOP there for {seconds} s"),
            Self::FarKilled => f.write_str("killed there, started again"),
        }
    }
}
