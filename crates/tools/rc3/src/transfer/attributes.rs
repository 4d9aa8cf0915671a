//! What a file has beside its content, permission bits and time: extended attributes (xattr(7)) and POSIX ACLs (acl(5)).
//!
//! Both sides must want them. Invariant: from a peer come only attributes of the namespace `user`, which mean nothing to
//! the system, and ACLs, which grant rights to users of this system by their numbers. Never set are `trusted` and
//! `security`: capabilities of programs, for example. Files that existed before keep their ACLs.

use std::{fs::File, path::Path};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::{
    progress::{Event, Reporter},
    xattr,
};

/// Most bytes of a value.
pub const VALUE_BYTES_MAX: usize = 4096;
/// Most bytes of a name: XATTR_NAME_MAX of Linux.
pub const NAME_BYTES_MAX: usize = 255;
/// Most bytes of all attributes of a manifest: bounds the receiver's memory.
pub(super) const ALL_BYTES_MAX: usize = 64 << 20;
/// Where Linux keeps the ACL of a file, and the one that a directory hands down.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
/// What each attribute counts beside its bytes.
const OVERHEAD_BYTES: usize = 64;

/// What to keep of files beside content, permission bits and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Args, Serialize, Deserialize)]
pub struct Preserve {
    /// Keep extended attributes of the namespace user; both sides need this option
    #[arg(long, short = 'X')]
    pub xattrs: bool,
    /// Keep ACLs: they grant rights by the numbers of users and groups, whatever the umask; both sides need this option
    #[arg(long, short = 'A')]
    pub acls: bool,
    /// Keep hard links among the files of one transfer; both sides need this option
    #[arg(long, short = 'H')]
    pub hard_links: bool,
}

/// One attribute of a file or directory. Untrusted on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// Its name with the namespace.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// What an attribute is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Namespace {
    User,
    Acl,
}

impl Namespace {
    /// That of an attribute with this name; `None` for one that neither side sends or sets.
    fn of(name: &[u8]) -> Option<Self> {
        let is_user = name.starts_with(b"user.") && name.len() <= NAME_BYTES_MAX && !name.contains(&0);
        match name {
            ACCESS | DEFAULT => Some(Self::Acl),
            _ => is_user.then_some(Self::User),
        }
    }
}

impl Attribute {
    fn namespace(&self) -> Option<Namespace> {
        Namespace::of(&self.name)
    }

    /// Whether it is of a kind to keep.
    pub(super) fn is_in(&self, preserve: Preserve) -> bool {
        match self.namespace() {
            Some(Namespace::User) => preserve.xattrs,
            Some(Namespace::Acl) => preserve.acls,
            None => false,
        }
    }

    /// Whether a receiver may store it.
    pub(super) fn is_valid(&self) -> bool {
        self.namespace().is_some() && self.value.len() <= VALUE_BYTES_MAX
    }

    /// Memory that it takes.
    pub(super) fn cost(&self) -> usize {
        self.name.len() + self.value.len() + OVERHEAD_BYTES
    }
}

/// How many files and directories lose what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    pub(super) xattrs: usize,
    pub(super) acls: usize,
    pub(super) hard_links: usize,
    /// Those that exceed [`VALUE_BYTES_MAX`] or [`ALL_BYTES_MAX`].
    pub(super) long: usize,
}

impl Dropped {
    /// Counts a file with these attributes, of which only those in `preserve` are kept.
    pub(super) fn count(&mut self, attributes: &[Attribute], preserve: Preserve) {
        let lost = |wanted| {
            let is_lost = |found: &Attribute| found.namespace() == Some(wanted) && !found.is_in(preserve);
            usize::from(attributes.iter().any(is_lost))
        };
        self.xattrs += lost(Namespace::User);
        self.acls += lost(Namespace::Acl);
    }

    /// Reports each kind once.
    pub(crate) fn report(self, reporter: &Reporter) {
        for (files, what, option) in [
            (self.xattrs, "extended attributes", Some("--xattrs")),
            (self.acls, "ACLs", Some("--acls")),
            (self.hard_links, "hard links", Some("--hard-links")),
            (self.long, "too long or too many attributes", None),
        ] {
            if files > 0 {
                reporter.report(&Event::Dropped { files, what, option });
            }
        }
    }
}

/// Attributes of the file at `path` that can be sent, within `room` bytes, and whether all of them can. `path` is followed.
pub(super) fn of(path: &Path, room: usize) -> (Vec<Attribute>, bool) {
    let (mut found, mut left) = (Vec::new(), room);
    let mut is_whole = true;
    for attribute in list(path) {
        match left.checked_sub(attribute.cost()).filter(|_| attribute.is_valid()) {
            Some(rest) => {
                left = rest;
                found.push(attribute);
            }
            None => is_whole = false,
        }
    }
    (found, is_whole)
}

/// Sets those that are in `preserve`; returns whether the system took all of them.
pub(super) fn set(file: &File, attributes: &[Attribute], preserve: Preserve) -> bool {
    let wanted = attributes.iter().filter(|attribute| attribute.is_in(preserve));
    let refused = wanted.filter(|attribute| {
        !has(file, attribute) && xattr::set(file, &attribute.name, &attribute.value).is_err()
    });
    refused.count() == 0
}

/// Whether a file has the ACL among these attributes already, and this side keeps ACLs.
pub(super) fn has_acl(file: &File, attributes: &[Attribute], preserve: Preserve) -> bool {
    let acl = attributes.iter().find(|attribute| attribute.name == ACCESS);
    preserve.acls && acl.is_some_and(|acl| has(file, acl))
}

/// The attributes that matter here.
fn list(path: &Path) -> impl Iterator<Item = Attribute> {
    let names = xattr::names(path).ok().flatten().unwrap_or_default();
    let names = names.split(|&byte| byte == 0).filter(|name| Namespace::of(name).is_some());
    let names: Vec<_> = names.map(<[u8]>::to_vec).collect();
    names
        .into_iter()
        .filter_map(move |name| Some(Attribute { value: xattr::get_at(path, &name).ok()??, name }))
}

fn has(file: &File, Attribute { name, value }: &Attribute) -> bool {
    xattr::get(file, name).is_ok_and(|there| there.as_ref() == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, bytes: usize) -> Attribute {
        Attribute { name: name.into(), value: vec![1; bytes] }
    }

    #[test]
    fn only_what_means_nothing_to_the_system_and_acls_come_from_a_peer() {
        for (name, valid) in [
            ("user.a", true),
            ("system.posix_acl_access", true),
            ("system.posix_acl_default", true),
            ("system.nfs4_acl", false),
            ("security.capability", false),
            ("trusted.overlay.opaque", false),
            ("user", false),
            ("user.a\0b", false),
            ("", false),
        ] {
            assert_eq!(attribute(name, 1).is_valid(), valid, "{name:?}");
        }
        assert!(attribute("user.a", VALUE_BYTES_MAX).is_valid());
        assert!(!attribute("user.a", VALUE_BYTES_MAX + 1).is_valid());
        assert!(!attribute(&format!("user.{}", "n".repeat(NAME_BYTES_MAX)), 1).is_valid());
    }

    #[test]
    fn each_file_counts_once_for_each_kind_that_is_dropped() {
        let both = [attribute("user.a", 1), attribute("user.b", 1), attribute("system.posix_acl_access", 1)];
        let mut dropped = Dropped::default();
        dropped.count(&both, Preserve::default());
        dropped.count(&both, Preserve { xattrs: true, ..Preserve::default() });
        dropped.count(&[], Preserve::default());
        assert_eq!(dropped, Dropped { xattrs: 1, acls: 2, ..Dropped::default() });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn no_more_is_read_than_there_is_room_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = attribute("user.a", 100);
        if !set(
            file.as_file(),
            std::slice::from_ref(&found),
            Preserve { xattrs: true, ..Preserve::default() },
        ) {
            return crate::skip::skipped("a file system with extended attributes for temporary files");
        }
        let cost = found.cost();
        assert_eq!(of(file.path(), cost), (vec![found], true));
        assert_eq!(of(file.path(), cost - 1), (Vec::new(), false));
    }
}
