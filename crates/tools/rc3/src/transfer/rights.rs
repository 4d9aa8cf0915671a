//! Who may use a file: permission bits and POSIX ACLs (acl(5)).
//!
//! Invariant: *never wider*. The bits that a sender announces grant nothing that the file's ACL refuses: the group bits of
//! a file with an ACL are the ACL's mask, not the group's rights (acl(5), "Correspondence between ACL entries and file
//! permission bits"). The bits that a receiver sets grant nothing beside themselves: entries that a directory hands down
//! are removed, and a group that a directory chose gets no more than everyone.
//!
//! ACLs are read on Linux. Units: permission bits, as in `chmod`.

use std::{
    fs::{File, Metadata},
    io,
    path::Path,
};

use super::{attributes::ACCESS, xattr};
use crate::system;

/// Permission bits that are sent: all except setuid, setgid and sticky.
pub(super) const MODE_BITS: u32 = 0o777;

/// The most permission bits that a copy of the file at `path` may have: those of the file, less what its ACL refuses to
/// anyone; `None` if the system has none. `path` is followed.
pub(super) fn of(path: &Path, metadata: &Metadata) -> Option<u32> {
    let mode = system::mode(metadata)? & MODE_BITS;
    Some(match Acl::of(xattr::get_at(path, ACCESS)) {
        Ok(None) => mode,
        Ok(Some(acl)) => acl.copied(mode),
        // What it grants to the group is unknown.
        Err(_) => mode & !0o070,
    })
}

/// Gives a new file or directory of this process these bits, and nobody further rights. A directory keeps bits above
/// [`MODE_BITS`], such as setgid of the one above it; a file loses them.
///
/// # Errors
/// When a system call fails.
pub(super) fn grant(file: &File, mode: u32) -> io::Result<()> {
    let now = file.metadata()?;
    let Some(was) = system::mode(&now) else { return Ok(()) };
    let mut mode = mode & MODE_BITS;
    if let Some(acl) = Acl::of(xattr::get(file, ACCESS))? {
        xattr::remove(file, ACCESS)?;
        // What the directory wants for the group; the mask is the group bits with which the file was created.
        mode &= 0o707 | acl.group << 3;
    }
    // Set by a setgid directory, for example: the sender's group is another one.
    if !system::has_own_group(&now) {
        mode &= 0o707 | (mode & 0o007) << 3;
    }
    let inherited = if now.is_dir() { was & 0o7000 } else { 0 };
    set_mode(file, inherited | mode)
}

/// Removes from an existing file what a copy with these bits would not have: permission bits, and the entries of an ACL.
///
/// # Errors
/// When a system call fails, for example on a file of another user.
pub(super) fn limit(file: &File, mode: u32) -> io::Result<()> {
    let Some(acl) = Acl::of(xattr::get(file, ACCESS))? else { return narrow(file, mode) };
    // First: the group of a file without entries has the bits of the mask.
    narrow(file, mode & (0o7707 | (acl.group & acl.mask) << 3))?;
    xattr::remove(file, ACCESS)
}

/// Removes all permission bits that are not in `mode`.
pub(super) fn narrow(file: &File, mode: u32) -> io::Result<()> {
    system::mode(&file.metadata()?).map_or(Ok(()), |now| set_mode(file, now & mode))
}

/// Sets the permission bits.
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    let mode = mode & 0o7777;
    if system::mode(&file.metadata()?) == Some(mode) {
        return Ok(());
    }
    match system::set_mode(file, mode) {
        // A file system without permissions shows those of its mount and allows no changes.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        set => set,
    }
}

/// The version of an ACL (`posix_acl_xattr.h`), and the tags of its entries: tag, rights and id, little-endian.
const VERSION: [u8; 4] = 2_u32.to_le_bytes();
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;

/// What counts of an ACL with more entries than permission bits. Rights have three bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Acl {
    /// Of the file's group, as far as the mask allows.
    group: u32,
    /// The most that named users, named groups and the group have.
    mask: u32,
    /// What every named user has, within the mask.
    every_user: u32,
    /// The same of every named group.
    every_group: u32,
}

impl Acl {
    /// The most bits of a copy, on which every named user and group counts as one of the group or of the others.
    fn copied(self, mode: u32) -> u32 {
        let others = mode & self.every_user & self.every_group & 0o007;
        mode & 0o700 | (self.group & self.mask & self.every_user) << 3 | others
    }

    fn parse(value: &[u8]) -> io::Result<Self> {
        let entries = value.strip_prefix(&VERSION).ok_or(io::ErrorKind::InvalidData)?;
        let (mut group, mut mask) = (0, 0o7);
        let (mut users, mut groups): (Option<u32>, Option<u32>) = (None, None);
        for entry in entries.chunks_exact(8) {
            let [t0, t1, r0, r1, ..] = *entry else { continue };
            let rights = u32::from(u16::from_le_bytes([r0, r1])) & 0o7;
            match u16::from_le_bytes([t0, t1]) {
                GROUP_OBJ => group = rights,
                MASK => mask = rights,
                USER => users = Some(users.unwrap_or(0o7) & rights),
                GROUP => groups = Some(groups.unwrap_or(0o7) & rights),
                _ => {}
            }
        }
        // Without a name nobody is limited.
        let every = |rights: Option<u32>| rights.map_or(0o7, |rights| rights & mask);
        Ok(Self { group, mask, every_user: every(users), every_group: every(groups) })
    }

    /// The ACL of a file with this value of [`ACCESS`]; `None` if it has only permission bits.
    fn of(value: io::Result<Option<Vec<u8>>>) -> io::Result<Option<Self>> {
        value?.map(|value| Self::parse(&value)).transpose()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_group_whose_rights_cannot_be_read_gets_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        let metadata = path.metadata().unwrap();
        assert_eq!(of(&path, &metadata), Some(0o664), "it has no ACL");
        fs::remove_file(&path).unwrap();
        assert_eq!(of(&path, &metadata), Some(0o604));
    }
}
