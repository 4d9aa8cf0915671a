//! Rights beside permission bits: ACLs, groups that directories choose, and files that exist.

use std::{fs, path::Path};

use super::{
    harness::*,
    modes::{mode, receiver, set_mode},
};
use crate::skip::skipped;

/// An entry of an ACL: tag, rights, and the id of a named user or group (acl(5)).
pub(super) type AclEntry = (u16, u16, u32);

const NOBODY: u32 = u32::MAX;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Gives a file or directory an ACL; `which` is `access` or `default`. Whether the file system has any.
pub(super) fn set_acl(path: &Path, which: &str, entries: &[AclEntry]) -> bool {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(rights.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    let name = format!("system.posix_acl_{which}");
    let set = rustix::fs::setxattr(path, name, &value, rustix::fs::XattrFlags::empty());
    if set == Err(rustix::io::Errno::OPNOTSUPP) {
        skipped("a file system with ACLs for temporary files");
        return false;
    }
    set.unwrap();
    true
}

fn has_acl(path: &Path) -> bool {
    rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0; 512]).is_ok()
}

/// A user whom an ACL names.
const NAMED: u32 = 1234;

pub(super) fn acl(named: u16, group: u16, mask: u16, other: u16) -> [AclEntry; 5] {
    [
        (OWNER, 0o7, NOBODY),
        (USER, named, NAMED),
        (GROUP, group, NOBODY),
        (MASK, mask, NOBODY),
        (OTHER, other, NOBODY),
    ]
}

#[test]
fn what_an_acl_refuses_at_the_source_is_granted_to_nobody() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir_all(top.join("d")).unwrap();
    let cases = [
        // The group bits are the mask, which the named user has; the group has nothing.
        ("named", acl(0o4, 0o0, 0o4, 0o0), 0o700),
        ("masked", acl(0o0, 0o6, 0o4, 0o0), 0o700),
        ("more", acl(0o6, 0o6, 0o4, 0o0), 0o740),
        // Without the entry, the user whom it refuses would be one of the group or of the others.
        ("refused", acl(0o0, 0o4, 0o4, 0o4), 0o700),
        ("d", acl(0o5, 0o0, 0o5, 0o0), 0o700),
    ];
    for (name, entries, _) in &cases {
        let path = top.join(name);
        if !path.is_dir() {
            fs::write(&path, b"content").unwrap();
        }
        if !set_acl(&path, "access", entries) {
            return;
        }
    }
    let receiver = receiver(to.path(), "000", &[]);
    assert!(send(&receiver.ticket, &[&top], &[]).status.success());
    assert_eq!(receiver.finish().0, Some(0));
    for (name, _, expected) in cases {
        let found = mode(&to.path().join("top").join(name));
        assert_eq!(found, expected, "{name:?} is {found:o}, not {expected:o}");
    }
}

#[test]
fn what_a_directory_hands_down_is_granted_to_nobody() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !set_acl(to.path(), "default", &acl(0o7, 0o5, 0o7, 0o0)) {
        return;
    }
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    set_mode(&top, 0o755);
    for (name, mode) in [("large", 0o640), ("small", 0o666), ("program", 0o777)] {
        fs::write(top.join(name), content(if name == "large" { 30_000_000 } else { 10 })).unwrap();
        set_mode(&top.join(name), mode);
    }
    // While it arrives.
    let first = receiver(to.path(), "000", &[]);
    let mut sender = slow_sender(&first, &top, to.path());
    let arrived = to.path().join("top");
    wait_for_record(&arrived);
    assert!(!has_acl(&arrived));
    assert_eq!(mode(&arrived), 0o750);
    for name in names(&arrived).iter().filter(|name| name.ends_with("rc3-part")) {
        assert_eq!(mode(&arrived.join(name)), 0o600, "{name}");
    }
    sender.kill().unwrap();
    sender.wait().unwrap();
    drop(first);
    // A later run continues it.
    let second = receiver(to.path(), "000", &[]);
    assert!(send(&second.ticket, &[&top], &[]).status.success());
    assert_eq!(second.finish().0, Some(0));
    for (name, expected) in [("", 0o750), ("large", 0o640), ("small", 0o640), ("program", 0o750)] {
        let found = mode(&arrived.join(name));
        assert_eq!(found, expected, "{name:?} is {found:o}, not {expected:o}");
        assert!(!has_acl(&arrived.join(name)), "{name:?} has an ACL");
    }
}

#[test]
fn a_group_that_a_directory_chooses_gets_no_more_than_everyone() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if std::os::unix::fs::chown(to.path(), None, Some(NAMED)).is_err() {
        return skipped("root, to give a directory another group");
    }
    set_mode(to.path(), 0o2775);
    let top = from.path().join("top");
    fs::create_dir_all(top.join("d")).unwrap();
    set_mode(&top, 0o755);
    set_mode(&top.join("d"), 0o750);
    for (name, mode) in [("private", 0o640), ("shared", 0o664)] {
        fs::write(top.join(name), b"content").unwrap();
        set_mode(&top.join(name), mode);
    }
    let receiver = receiver(to.path(), "000", &[]);
    assert!(send(&receiver.ticket, &[&top], &[]).status.success());
    assert_eq!(receiver.finish().0, Some(0));
    let arrived = to.path().join("top");
    for (name, expected) in [("", 0o2755), ("d", 0o2700), ("private", 0o600), ("shared", 0o644)] {
        let found = mode(&arrived.join(name));
        assert_eq!(found, expected, "{name:?} is {found:o}, not {expected:o}");
        let group = std::os::unix::fs::MetadataExt::gid(&arrived.join(name).metadata().unwrap());
        assert_eq!(group, NAMED, "the directory's choice");
    }
}

#[test]
fn wider_files_that_exist_become_as_narrow_as_the_senders() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), b"content").unwrap();
    set_mode(&from.path().join("f"), 0o640);
    let time = fs::metadata(from.path().join("f")).unwrap().modified().unwrap();
    // Replaced, compared, and taken for the same by its time.
    for (there, flag) in [("before!", "--force"), ("content", "--force"), ("content", "--quick-check")] {
        let there_at = to.path().join("f");
        fs::write(&there_at, there).unwrap();
        fs::File::options().write(true).open(&there_at).unwrap().set_modified(time).unwrap();
        set_mode(&there_at, 0o666);
        let acls = set_acl(&there_at, "access", &acl(0o6, 0o4, 0o6, 0o6));
        let receiver = receiver(to.path(), "000", &[flag]);
        assert!(send(&receiver.ticket, &[&from.path().join("f")], &[]).status.success());
        assert_eq!(receiver.finish().0, Some(0));
        assert_eq!(fs::read(&there_at).unwrap(), b"content");
        assert_eq!(mode(&there_at), 0o640, "{there} {flag}");
        assert!(!acls || !has_acl(&there_at), "{there} {flag}");
        fs::remove_file(&there_at).unwrap();
    }
}
