//! Dropping the privileges that only opening devices needs.

use std::io;

use nix::unistd::{Gid, Group, Uid, User, geteuid, setgroups, setresgid, setresuid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use super::config::ForwardConfig;

/// The default user for a forwarder started by root.
const USER: &str = "nobody";

/// The user and group to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    user: Uid,
    group: Gid,
}

impl Identity {
    /// Looks the names up; `None` if this process is not root and no other user is configured.
    pub(crate) fn find(config: &ForwardConfig) -> io::Result<Option<Self>> {
        let (user, group) = (config.user.as_deref(), config.group.as_deref());
        if !geteuid().is_root() {
            return match (user, group) {
                (None, None) => Ok(None),
                _ => Err(io::Error::other("only root can switch to another user")),
            };
        }
        let name = user.unwrap_or(USER);
        let user =
            User::from_name(name)?.ok_or_else(|| io::Error::other(format!("there is no user `{name}`")))?;
        let group = match group {
            None => user.gid,
            Some(name) => {
                Group::from_name(name)?
                    .ok_or_else(|| io::Error::other(format!("there is no group `{name}`")))?
                    .gid
            }
        };
        Ok(Some(Self { user: user.uid, group }))
    }
}

/// Drops all privileges for good. Threads started later have none either; there must be no other threads yet.
pub(crate) fn give_up(identity: Option<Identity>) -> io::Result<()> {
    if let Some(Identity { user, group }) = identity {
        setgroups(&[group])?;
        setresgid(group, group, group)?;
        setresuid(user, user, user)?;
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)?;
    Ok(())
}
