//! Extended attributes, ACLs and hard links.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::{
    harness::*,
    rights::{acl, set_acl},
};
use crate::skip::skipped;

const ALL: &str = "-XAH";

/// A tree with all of them: `top/file` has two further names. `None` where the file system has no attributes.
pub(crate) fn source() -> Option<(tempfile::TempDir, PathBuf)> {
    let from = tempfile::tempdir().unwrap();
    let top = from.path().join("top");
    fs::create_dir_all(top.join("inner")).unwrap();
    fs::write(top.join("file"), content(100_000)).unwrap();
    fs::write(top.join("granted"), b"granted").unwrap();
    fs::hard_link(top.join("file"), top.join("inner/second")).unwrap();
    fs::hard_link(top.join("file"), top.join("third")).unwrap();
    for path in ["file", "inner"] {
        if setxattr(top.join(path), "user.colour", b"red", XattrFlags::empty()).is_err() {
            skipped("a file system with extended attributes for temporary files");
            return None;
        }
    }
    set_acl(&top.join("granted"), "access", &acl(0o4, 0o4, 0o4, 0)).then_some((from, top))
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 512];
    let length = getxattr(path, name, &mut value).ok()?;
    value.truncate(length);
    Some(value)
}

fn has_acl(path: &Path) -> bool {
    attribute(path, "system.posix_acl_access").is_some()
}

/// How many of the three names lead to one file.
fn names(top: &Path) -> u64 {
    fs::metadata(top.join("file")).unwrap().nlink()
}

/// Checks a copy with everything.
pub(crate) fn assert_kept(from: &Path, top: &Path) {
    assert_eq!(tree(top), tree(from));
    assert_eq!(names(top), 3);
    for path in ["file", "inner", "third"] {
        assert_eq!(attribute(&top.join(path), "user.colour").as_deref(), Some(&b"red"[..]), "{path}");
    }
    let acls = [from, top].map(|top| attribute(&top.join("granted"), "system.posix_acl_access"));
    assert!(acls[0].is_some() && acls[0] == acls[1], "{acls:?}");
}

/// Sends with these options of the sender and the receiver; returns the sender's exit code and what both said.
fn transfer(top: &Path, to: &Path, sender: &[&str], receiver: &[&str]) -> (Option<i32>, String, String) {
    let receiver = Receiver::run(rc3(), to, receiver);
    let sent = send(&receiver.ticket, &[top], sender);
    let said = String::from_utf8_lossy(&sent.stderr).into_owned();
    (sent.status.code(), said, receiver.finish_loud())
}

#[test]
fn attributes_and_hard_links_are_kept_if_both_sides_want_them() {
    let Some((_from, top)) = source() else { return };
    let to = tempfile::tempdir().unwrap();
    let copy = to.path().join("top");
    // The second transfer finds everything there.
    for _ in 0..2 {
        let (code, sender, receiver) = transfer(&top, to.path(), &[ALL], &[ALL]);
        assert_eq!(code, Some(0), "{sender}");
        assert!(!sender.contains("not kept") && !receiver.contains("not kept"), "{sender}{receiver}");
        // Three names are one file on the wire.
        assert!(sender.contains("100 kB in 4 files") || sender.contains("unchanged"), "{sender}");
        assert_kept(&top, &copy);
    }
    // A name of its own is replaced only with permission, and loses nothing if its content is the same.
    fs::remove_file(copy.join("third")).unwrap();
    fs::copy(copy.join("file"), copy.join("third")).unwrap();
    assert_eq!(transfer(&top, to.path(), &[ALL], &[ALL]).0, Some(0));
    assert_eq!(names(&copy), 2);
    fs::write(copy.join("third"), b"mine").unwrap();
    let (code, sender, _) = transfer(&top, to.path(), &[ALL], &[ALL]);
    assert_eq!(code, Some(5), "{sender}");
    assert_eq!(fs::read(copy.join("third")).unwrap(), b"mine");
    assert_eq!(transfer(&top, to.path(), &[ALL], &[ALL, "--force"]).0, Some(0));
    assert_kept(&top, &copy);
}

#[test]
fn what_is_not_kept_is_said_once() {
    let Some((_from, top)) = source() else { return };
    let to = tempfile::tempdir().unwrap();
    let (code, sender, receiver) = transfer(&top, to.path(), &[], &[ALL]);
    assert_eq!(code, Some(0), "{sender}");
    for line in [
        // The three names, and the directory.
        "not kept: extended attributes of 4 files; use --xattrs on both sides",
        "not kept: ACLs of 1 file; use --acls on both sides",
        "not kept: hard links of 2 files; use --hard-links on both sides",
    ] {
        assert_eq!(sender.matches(line).count(), 1, "{sender}");
    }
    assert!(!receiver.contains("not kept"), "{receiver}");
    let copy = to.path().join("top");
    assert_eq!((names(&copy), attribute(&copy.join("file"), "user.colour")), (1, None));
    assert!(!has_acl(&copy.join("granted")));
}

#[test]
fn a_receiver_applies_only_what_it_wants() {
    let Some((_from, top)) = source() else { return };
    let to = tempfile::tempdir().unwrap();
    let (code, sender, receiver) = transfer(&top, to.path(), &[ALL], &[]);
    assert_eq!(code, Some(7), "{sender}");
    for line in ["extended attributes of 2 files; use --xattrs", "ACLs of 1 file; use --acls"] {
        assert_eq!(receiver.matches(line).count(), 1, "{receiver}");
    }
    assert_eq!(sender.matches("run the receiver with --hard-links").count(), 2, "{sender}");
    let copy = to.path().join("top");
    assert_eq!((names(&copy), attribute(&copy.join("file"), "user.colour")), (1, None));
    assert!(!has_acl(&copy.join("granted")) && !copy.join("third").exists());

    // Files that existed get attributes, and keep their rights.
    let (code, sender, _) = transfer(&top, to.path(), &[ALL], &[ALL]);
    assert_eq!(code, Some(0), "{sender}");
    assert_eq!(
        (names(&copy), attribute(&copy.join("file"), "user.colour").as_deref()),
        (3, Some(&b"red"[..]))
    );
    assert!(!has_acl(&copy.join("granted")));
}

/// It is refused before anything is sent, and no stream of it comes.
#[test]
fn another_name_that_is_taken_is_a_conflict_and_holds_up_nothing() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (top, there) = (from.path().join("top"), to.path().join("top"));
    fs::create_dir(&top).unwrap();
    fs::write(top.join("a"), b"content").unwrap();
    fs::hard_link(top.join("a"), top.join("b")).unwrap();
    fs::write(top.join("c"), b"c").unwrap();
    fs::create_dir(&there).unwrap();
    fs::write(there.join("b"), b"other").unwrap();
    let receiver = Receiver::start(to.path(), &["--hard-links"]);
    let output = send(&receiver.ticket, &[&top], &["--hard-links"]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(5));
    assert_eq!(fs::read(there.join("b")).unwrap(), b"other");
    assert_eq!(fs::read(there.join("c")).unwrap(), b"c");
}
