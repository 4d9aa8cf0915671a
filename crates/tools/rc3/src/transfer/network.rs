//! Network settings of a command: marks, and the memory of paths.

use std::{
    env,
    ffi::OsString,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::ValueEnum;
use rc3_net::{
    Endpoint, EndpointOptions,
    marks::{MarkChoice, Marks},
    paths::PathMemory,
};
use serde::{Deserialize, Serialize};

use super::outage::GIVE_UP_AFTER;

/// The DSCPs to send with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
pub enum Marking {
    /// Those that overtook on this path when `rc3 check` probed it in the last day, else le
    #[default]
    Auto,
    /// Low priority is LE, lower effort (1)
    Le,
    /// Low priority is CS1 (8)
    Cs1,
    /// No marks
    None,
    /// Low priority is 0, normal priority CS3 (24): for paths that serve nothing below best effort
    Raised,
    /// One DSCP for each level (3, 7, ... 59), for queues configured for them: see docs/OPERATORS.md
    PerLevel,
}

/// Network settings from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The DSCPs.
    pub marking: Marking,
    /// File for the memory of paths; `None`: no memory.
    pub path_memory: Option<PathBuf>,
    /// Time after which a peer that answers nothing is given up.
    pub give_up_after: Duration,
    /// Whether the gateway is asked for a port, where a peer needs one to reach this host.
    pub maps_ports: bool,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            marking: Marking::default(),
            path_memory: None,
            give_up_after: GIVE_UP_AFTER,
            maps_ports: false,
        }
    }
}

impl Network {
    /// The configuration of an endpoint bound to `bound`, which talks only to `remote` if that is known.
    pub fn options(&self, bound: IpAddr, remote: Option<SocketAddr>) -> EndpointOptions {
        let path_memory = self.path_memory.as_ref().map(PathMemory::open);
        let found = || path_memory.as_ref()?.marks(remote?, bound).map(Marks::from);
        let marks = match self.marking {
            Marking::Auto => found().unwrap_or_default(),
            Marking::Le => MarkChoice::LowerEffort.into(),
            Marking::Cs1 => MarkChoice::Cs1.into(),
            Marking::None => MarkChoice::None.into(),
            Marking::Raised => MarkChoice::Raised.into(),
            Marking::PerLevel => MarkChoice::PerLevel.into(),
        };
        EndpointOptions { marks, path_memory, ..EndpointOptions::default() }
    }

    /// An endpoint at any free port that talks only to one of these addresses.
    ///
    /// # Errors
    /// When the system has no such socket.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub fn client(&self, remotes: &[SocketAddr]) -> io::Result<Endpoint> {
        let bind = |any: IpAddr| {
            Endpoint::bind(self.options(any, remotes.first().copied()), None, SocketAddr::new(any, 0))
        };
        let (any4, any6) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
        if remotes.iter().all(SocketAddr::is_ipv4) {
            return bind(any4);
        }
        // Of both families, on a system without IPv6, those of IPv4 are left.
        bind(any6)
            .or_else(|error| if remotes.iter().any(SocketAddr::is_ipv4) { bind(any4) } else { Err(error) })
    }
}

/// This user's file in [`state_directory`]; `None` if there is none.
pub fn path_memory() -> Option<PathBuf> {
    Some(state_directory()?.join("paths"))
}

/// This user's directory for rc3's state by the XDG base directories or that of Windows; `None` if they are not set.
pub fn state_directory() -> Option<PathBuf> {
    state_of(|name| env::var_os(name))
}

fn state_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The specification requires ignoring relative paths.
    let directory = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = directory("XDG_STATE_HOME").or_else(|| Some(directory("HOME")?.join(".local/state")));
    Some(state.or_else(|| directory("LOCALAPPDATA"))?.join("rc3"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_directory_is_where_the_state_of_a_user_is() {
        let with = |set: &[(&str, &str)]| {
            let find = |name: &str| Some(set.iter().find(|(known, _)| *known == name)?.1.into());
            state_of(find)
        };
        let is = |path: &str| Some(Path::new(path).to_owned());
        assert_eq!(with(&[("HOME", "/home/a")]), is("/home/a/.local/state/rc3"));
        assert_eq!(with(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "/s")]), is("/s/rc3"));
        assert_eq!(with(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "")]), is("/home/a/.local/state/rc3"));
        assert_eq!(with(&[("HOME", "/home/a"), ("LOCALAPPDATA", "/l")]), is("/home/a/.local/state/rc3"));
        assert_eq!(with(&[("LOCALAPPDATA", "/l")]), is("/l/rc3"));
        assert_eq!(with(&[("HOME", "relative")]), None);
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn marks_that_were_found_are_used_unless_others_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("paths");
        let (bound, remote) = (IpAddr::from([127, 0, 0, 1]), SocketAddr::from(([127, 0, 0, 1], 9)));
        let memory = PathMemory::open(&path);
        memory.set_marks(remote, bound, MarkChoice::Cs1);
        memory.save().unwrap();
        let network = |marking| Network { marking, path_memory: Some(path.clone()), ..Network::default() };
        let marks = |marking, remote| network(marking).options(bound, remote).marks;
        assert_eq!(marks(Marking::Auto, Some(remote)), MarkChoice::Cs1.into());
        assert_eq!(marks(Marking::Auto, None), Marks::default());
        assert_eq!(marks(Marking::None, Some(remote)), MarkChoice::None.into());
        assert_eq!(marks(Marking::PerLevel, Some(remote)), MarkChoice::PerLevel.into());
    }
}
