//! Two names of a transfer that lead to one file at the receiver: both contents arrive, or one is reported.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use super::harness::*;

/// Files by path below a new directory `top`, all of the same length and time.
fn source(files: &[(&str, &str)]) -> tempfile::TempDir {
    let from = tempfile::tempdir().unwrap();
    write(from.path(), files);
    from
}

fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join("top").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
}

/// Sends `top`; returns the code of both ends, after a check that success means that every name has its own content.
fn transfer(from: &Path, to: &Path, recv: &[&str], flags: &[&str], files: &[(&str, &str)]) -> Option<i32> {
    let receiver = Receiver::start(to, recv);
    let output = send(&receiver.ticket, &[&from.join("top")], flags);
    let (code, heard) = receiver.finish();
    assert_eq!(output.status.code(), code, "{}\n{heard}", said(&output));
    let mut seen = std::collections::HashSet::new();
    for (name, text) in files.iter().filter(|_| code == Some(0)) {
        let path = to.join("top").join(name);
        assert_eq!(fs::read_to_string(&path).unwrap(), *text, "{name} {recv:?}");
        assert!(seen.insert(path.metadata().unwrap().ino()), "{name} shares a file, {recv:?}");
    }
    code
}

const POLICIES: [&[&str]; 4] = [&[], &["--force"], &["--keep-both"], &["--force", "--quick-check"]];
const TWO: [(&str, &str); 2] = [("A/f", "one"), ("B/f", "two")];

#[test]
fn a_directory_and_a_link_to_it_lose_no_file() {
    for policy in POLICIES {
        let (from, to) = (source(&TWO), tempfile::tempdir().unwrap());
        fs::create_dir_all(to.path().join("top/B")).unwrap();
        symlink("B", to.path().join("top/A")).unwrap();
        for run in 0..3 {
            let code = transfer(from.path(), to.path(), policy, &[], &[]);
            assert!(
                [Some(5), Some(7)].contains(&code) || policy == ["--keep-both"],
                "{policy:?} {run}: {code:?}"
            );
        }
        let left = fs::read_to_string(to.path().join("top/B/f")).unwrap();
        assert!(left == "one" || left == "two", "{left}");
        if policy == ["--keep-both"] {
            let both = [fs::read(to.path().join("top/B/f")), fs::read(to.path().join("top/B/f (1)"))];
            let mut both = both.map(|read| String::from_utf8(read.unwrap()).unwrap());
            both.sort();
            assert_eq!(both, ["one", "two"]);
        }
    }
}

/// Equal time and length count as the same: for one of two names.
#[test]
fn one_file_is_not_the_same_as_two_by_its_time() {
    let (from, to) = (source(&TWO), tempfile::tempdir().unwrap());
    write(to.path(), &[("B/f", "two")]);
    symlink("B", to.path().join("top/A")).unwrap();
    for policy in [&["--quick-check"][..], &["--quick-check", "--force"]] {
        assert_eq!(transfer(from.path(), to.path(), policy, &[], &[]), Some(7), "{policy:?}");
    }
}

#[test]
fn hard_links_at_the_destination_get_files_of_their_own() {
    let same = [("a", "one"), ("b", "one"), ("c/d", "one")];
    let other = [("a", "one"), ("b", "two"), ("c/d", "six")];
    for files in [same, other] {
        for policy in POLICIES {
            let (from, to) = (source(&files), tempfile::tempdir().unwrap());
            write(to.path(), &[("a", "one"), ("c/x", "x")]);
            let at = |name: &str| to.path().join("top").join(name);
            fs::hard_link(at("a"), at("b")).unwrap();
            fs::hard_link(at("a"), at("c/d")).unwrap();
            let forced = policy.contains(&"--force");
            let code = transfer(from.path(), to.path(), policy, &[], if forced { &files } else { &[] });
            match policy {
                [] if files == same => assert_eq!(code, Some(7)),
                [] => assert_eq!(code, Some(5)),
                _ => assert_eq!(code, Some(0), "{policy:?}"),
            }
            if !forced {
                assert_eq!(fs::read(at("b")).unwrap(), b"one", "not replaced unasked");
            }
        }
    }
}

#[test]
fn equal_files_of_two_names_do_not_end_in_one() {
    let files = [("A/f", "one"), ("B/f", "one")];
    let (from, to) = (source(&files), tempfile::tempdir().unwrap());
    fs::create_dir_all(to.path().join("top/B")).unwrap();
    symlink("B", to.path().join("top/A")).unwrap();
    for policy in [&[][..], &["--force"]] {
        assert_eq!(transfer(from.path(), to.path(), policy, &[], &[]), Some(7), "{policy:?}");
        assert_eq!(fs::read(to.path().join("top/B/f")).unwrap(), b"one");
    }
}
