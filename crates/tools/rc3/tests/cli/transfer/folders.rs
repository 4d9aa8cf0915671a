//! Folders: what exists already, conflicts, links, holes, times, and the choice of files.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::harness::*;

/// A small tree with modes and times.
fn folder(root: &Path) -> PathBuf {
    let top = root.join("top");
    fs::create_dir_all(top.join("in/empty")).unwrap();
    for (name, bytes) in [("a", 1000), ("b.txt", 2000), ("in/c", 3000), ("in/d", 0)] {
        fs::write(top.join(name), content(bytes)).unwrap();
    }
    top
}

fn date(path: &Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

fn modified(path: &Path) -> SystemTime {
    path.symlink_metadata().unwrap().modified().unwrap()
}

/// Sends `top` to a receiver with these flags; returns the exit codes and the sender's events.
fn transfer(
    top: &Path,
    to: &Path,
    recv: &[&str],
    flags: &[&str],
) -> (Option<i32>, Option<i32>, Vec<serde_json::Value>) {
    let receiver = Receiver::start(to, recv);
    let output = send(&receiver.ticket, &[top], &[&["--json"], flags].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let events = text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let dry_run = flags.contains(&"--dry-run");
    let received = if dry_run { None } else { receiver.finish().0 };
    (output.status.code(), received, events)
}

fn paths(events: &[serde_json::Value], name: &str) -> Vec<String> {
    let named = events.iter().filter(|event| event["event"] == name);
    named.map(|event| event["path"].as_str().expect("a path").to_owned()).collect()
}

#[test]
fn conflicts_are_listed_and_the_rest_arrives() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = folder(from.path());
    let there = to.path().join("top");
    fs::create_dir(&there).unwrap();
    // The same, another of the same length, another length, and a file in place of a directory.
    fs::write(there.join("a"), content(1000)).unwrap();
    fs::write(there.join("b.txt"), [7; 2000]).unwrap();
    fs::write(there.join("in"), b"mine").unwrap();
    let (sent, received, events) = transfer(&top, to.path(), &[], &[]);
    assert_eq!((sent, received), (Some(5), Some(5)));
    assert_eq!(paths(&events, "conflict"), ["top/b.txt"]);
    // No policy replaces these.
    assert_eq!(paths(&events, "skipped"), ["top/in", "top/in/c", "top/in/d", "top/in/empty"]);
    assert_eq!(paths(&events, "file"), Vec::<String>::new());
    let error = events.last().unwrap();
    assert!(error["hint"].as_str().unwrap().contains("--keep-both"), "{error}");
    assert_eq!(fs::read(there.join("b.txt")).unwrap(), [7; 2000]);
    assert_eq!(fs::read(there.join("in")).unwrap(), b"mine");

    fs::remove_file(there.join("in")).unwrap();
    let (sent, received, events) = transfer(&top, to.path(), &[], &[]);
    assert_eq!((sent, received), (Some(5), Some(5)));
    assert_eq!(paths(&events, "conflict"), ["top/b.txt"]);
    assert_eq!(paths(&events, "file").len(), 2);
    assert_eq!(fs::read(there.join("in/c")).unwrap(), content(3000));

    let (sent, received, events) = transfer(&top, to.path(), &["--force"], &[]);
    assert_eq!((sent, received, paths(&events, "file")), (Some(0), Some(0), vec!["top/b.txt".to_owned()]));
    assert!(tree(from.path()) == tree(to.path()));
}

#[test]
fn both_are_kept_and_repeating_adds_nothing() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = folder(from.path());
    // A name that another file of the transfer has.
    fs::write(top.join("b (1).txt"), b"first").unwrap();
    let there = to.path().join("top");
    fs::create_dir(&there).unwrap();
    fs::write(there.join("b.txt"), b"mine").unwrap();
    for sent_files in [5, 0] {
        let (sent, received, events) = transfer(&top, to.path(), &["--keep-both"], &[]);
        assert_eq!((sent, received), (Some(0), Some(0)));
        assert_eq!(paths(&events, "file").len(), sent_files);
        assert_eq!(fs::read(there.join("b.txt")).unwrap(), b"mine");
        assert_eq!(fs::read(there.join("b (1).txt")).unwrap(), b"first");
        assert_eq!(fs::read(there.join("b (2).txt")).unwrap(), content(2000));
        assert_eq!(names(&there).len(), 5);
    }
}

#[test]
fn both_names_of_a_file_are_kept_beside_others_and_repeating_succeeds() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (top, there) = (from.path().join("top"), to.path().join("top"));
    for (dir, [f, g]) in
        [(&top, [content(1000), content(1000)]), (&there, [b"mine".to_vec(), b"too".to_vec()])]
    {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("f"), f).unwrap();
        fs::write(dir.join("g"), g).unwrap();
    }
    fs::remove_file(top.join("g")).unwrap();
    fs::hard_link(top.join("f"), top.join("g")).unwrap();
    // The first numbers are names of other links of the transfer.
    symlink("f", top.join("g (1)")).unwrap();
    fs::hard_link(top.join("f"), top.join("g (2)")).unwrap();
    for _ in 0..2 {
        let flags = ["--links", "--hard-links"];
        let outcome = transfer(&top, to.path(), &["--keep-both", "--hard-links"], &flags);
        assert_eq!((outcome.0, outcome.1), (Some(0), Some(0)));
        let id = |name: &str| there.join(name).metadata().unwrap().ino();
        let mut names = names(&there);
        names.sort_unstable();
        assert_eq!(names, ["f", "f (1)", "g", "g (1)", "g (2)", "g (3)"]);
        assert_eq!(fs::read(there.join("g")).unwrap(), b"too");
        assert_eq!(fs::read_link(there.join("g (1)")).unwrap(), Path::new("f"));
        assert_eq!(fs::read(there.join("g (3)")).unwrap(), content(1000));
        assert_eq!([id("g (2)"), id("g (3)")], [id("f (1)"); 2]);
    }
}

#[test]
fn size_and_time_count_as_the_same_only_where_asked() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = folder(from.path());
    date(&top.join("a"), 1_000_000);
    let there = to.path().join("top");
    fs::create_dir(&there).unwrap();
    fs::write(there.join("a"), [7; 1000]).unwrap();
    date(&there.join("a"), 1_000_000);
    let (sent, _, events) = transfer(&top, to.path(), &["--quick-check"], &[]);
    assert_eq!((sent, paths(&events, "conflict").len()), (Some(0), 0));
    let (sent, _, events) = transfer(&top, to.path(), &[], &[]);
    assert_eq!((sent, paths(&events, "conflict")), (Some(5), vec!["top/a".to_owned()]));
    // Another time: compared by content.
    date(&there.join("a"), 2_000_000);
    let (sent, _, events) = transfer(&top, to.path(), &["--quick-check"], &[]);
    assert_eq!((sent, paths(&events, "conflict")), (Some(5), vec!["top/a".to_owned()]));
}

#[test]
fn dry_runs_show_what_would_happen_to_each_file_and_change_nothing() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = folder(from.path());
    let there = to.path().join("top");
    fs::create_dir(&there).unwrap();
    fs::write(there.join("a"), content(1000)).unwrap();
    date(&there.join("a"), 5);
    fs::write(there.join("b.txt"), b"mine").unwrap();
    let before = tree(to.path());
    for (flag, word, code) in
        [("--quick-check", "conflict", 5), ("--force", "replace", 0), ("--keep-both", "keep-both", 0)]
    {
        let receiver = Receiver::start(to.path(), &[flag]);
        let output = send(&receiver.ticket, &[&top], &["--dry-run"]);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        let listed = String::from_utf8(output.stdout).unwrap();
        let expected = format!(
            "directory top/\nsame      top/a\n{word:9} top/b.txt\ndirectory top/in/\nsend      top/in/c\n\
             send      top/in/d\ndirectory top/in/empty/\n"
        );
        assert_eq!(listed, expected);
        assert!(tree(to.path()) == before);
        assert_eq!(modified(&there.join("a")), UNIX_EPOCH + Duration::new(5, 123_456_789));
        // The ticket is still good.
        if flag == "--force" {
            assert!(send(&receiver.ticket, &[&top], &["--quiet"]).status.success());
            assert_eq!(receiver.finish().0, Some(0));
            fs::remove_dir_all(there.join("in")).unwrap();
            fs::write(there.join("b.txt"), b"mine").unwrap();
            date(&there.join("a"), 5);
        }
    }
}

#[test]
fn times_and_modes_arrive_and_are_set_again() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = folder(from.path());
    fs::set_permissions(top.join("a"), PermissionsExt::from_mode(0o600)).unwrap();
    fs::set_permissions(top.join("b.txt"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(top.join("in"), PermissionsExt::from_mode(0o555)).unwrap();
    for (at, name) in ["a", "b.txt", "in/c", "in/d", "in/empty", "in", ""].iter().enumerate() {
        date(&top.join(name), 1_000_000 + at as u64);
    }
    assert_eq!(transfer(&top, to.path(), &[], &[]).0, Some(0));
    assert_same(from.path(), to.path());
    // What an interrupted run may leave: a directory that is open to its owner, and other times.
    let there = to.path().join("top");
    fs::set_permissions(there.join("in"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(there.join("a"), PermissionsExt::from_mode(0o666)).unwrap();
    fs::remove_file(there.join("in/c")).unwrap();
    ["a", "in", ""].iter().for_each(|name| date(&there.join(name), 7));
    assert_eq!(transfer(&top, to.path(), &[], &[]).0, Some(0));
    assert_same(from.path(), to.path());
    // The directory is closed to its owner now, and gets another file.
    fs::set_permissions(top.join("in"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(top.join("in/new"), b"new").unwrap();
    fs::set_permissions(top.join("in"), PermissionsExt::from_mode(0o555)).unwrap();
    assert_eq!(transfer(&top, to.path(), &[], &[]).0, Some(0));
    assert_same(from.path(), to.path());
}

#[test]
fn directories_that_existed_keep_the_bits_of_others() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = folder(from.path());
    fs::set_permissions(&top, PermissionsExt::from_mode(0o700)).unwrap();
    let there = to.path().join("top");
    fs::create_dir(&there).unwrap();
    fs::set_permissions(&there, PermissionsExt::from_mode(0o775)).unwrap();
    assert_eq!(transfer(&top, to.path(), &[], &[]).0, Some(0));
    assert_eq!(there.metadata().unwrap().mode() & 0o7777, 0o775);
}

#[test]
fn links_arrive_as_links_where_asked_unless_they_lead_out() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = folder(from.path());
    symlink("b.txt", top.join("good")).unwrap();
    symlink("../a", top.join("in/up")).unwrap();
    symlink("nowhere", top.join("in/broken")).unwrap();
    symlink("in", top.join("folder")).unwrap();
    let made = ["top/folder", "top/good", "top/in/broken", "top/in/up"];
    let (sent, received, events) = transfer(&top, to.path(), &[], &["--links"]);
    assert_eq!((sent, received), (Some(0), Some(0)), "{events:?}");
    assert_eq!(events.last().unwrap()["files"], 8);
    for name in made {
        let target = |root: &Path| fs::read_link(root.join(name)).unwrap();
        assert_eq!(target(from.path()), target(to.path()));
        assert_eq!(modified(&from.path().join(name)), modified(&to.path().join(name)));
    }
    // Once more: all exist. A link with another target is a conflict.
    let (sent, _, events) = transfer(&top, to.path(), &[], &["--links"]);
    assert_eq!((sent, &events.last().unwrap()["unchanged_files"]), (Some(0), &8.into()));
    fs::remove_file(to.path().join("top/good")).unwrap();
    symlink("a", to.path().join("top/good")).unwrap();
    let (sent, _, events) = transfer(&top, to.path(), &[], &["--links"]);
    assert_eq!((sent, paths(&events, "conflict")), (Some(5), vec!["top/good".to_owned()]));
    assert_eq!(transfer(&top, to.path(), &["--force"], &["--links"]).0, Some(0));
    assert_eq!(fs::read_link(to.path().join("top/good")).unwrap(), Path::new("b.txt"));

    symlink("/etc/passwd", top.join("absolute")).unwrap();
    symlink("../../outside", top.join("above")).unwrap();
    symlink("in/../../..", top.join("around")).unwrap();
    let (sent, received, events) = transfer(&top, to.path(), &[], &["--links"]);
    assert_eq!((sent, received), (Some(7), Some(7)));
    assert_eq!(
        paths(&events, "skipped"),
        ["top/above", "top/absolute", "top/around"].map(str::to_owned).as_slice()
    );
    for name in ["absolute", "above", "around"] {
        assert!(to.path().join("top").join(name).symlink_metadata().is_err());
    }
}

#[test]
fn sparse_files_stay_sparse_and_holes_are_not_sent() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sparse = from.path().join("sparse");
    let file = fs::File::create(&sparse).unwrap();
    file.set_len(50_000_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &content(100_000), 20_000_000).unwrap();
    // Zeros that are stored at the sender.
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 1_000_000], 30_000_000).unwrap();
    drop(file);
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&sparse], &["--json"]);
    assert!(output.status.success(), "{}", last_event(&output));
    assert_eq!(receiver.finish().0, Some(0));
    assert!(fs::read(&sparse).unwrap() == fs::read(to.path().join("sparse")).unwrap());
    let stored = 512 * to.path().join("sparse").metadata().unwrap().blocks();
    assert!(stored < 1_000_000, "{stored} bytes stored");
    assert!(carried(&output) < 3_000_000, "{} bytes sent", carried(&output));
    // Nothing but a hole: hashing it would take half an hour.
    let hole = from.path().join("hole");
    fs::File::create(&hole).unwrap().set_len(1 << 40).unwrap();
    for _ in ["new", "there"] {
        assert_eq!(transfer(&hole, to.path(), &[], &[]).0, Some(0));
        assert_eq!(to.path().join("hole").metadata().unwrap().len(), 1 << 40);
    }
}

#[test]
fn patterns_choose_what_is_sent() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = folder(from.path());
    fs::write(top.join("in/e.txt"), b"e").unwrap();
    assert_eq!(transfer(&top, to.path(), &[], &["--include", "*.txt", "--exclude", "top/b*"]).0, Some(0));
    let arrived: Vec<_> = tree(to.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(arrived, ["top/", "top/in/", "top/in/e.txt"]);
    let output = send("rc3://h:1/", &[&top], &["--exclude", "["]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn everything_is_on_disk_before_the_end_is_reported() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = folder(from.path());
    assert_eq!(transfer(&top, to.path(), &["--fsync=end"], &[]).0, Some(0));
    assert!(tree(from.path()) == tree(to.path()));
}

#[test]
fn transfers_that_do_not_fit_or_cannot_be_written_are_refused_at_once() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Larger than any disk, with more holes than a manifest lists: the others are sent.
    let huge = from.path().join("huge");
    let file = fs::File::create(&huge).unwrap();
    let Ok(()) = file.set_len(15 << 40) else { return };
    for at in 0..400 {
        std::os::unix::fs::FileExt::write_all_at(&file, b"x", at * (15 << 40) / 400).unwrap();
    }
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&huge], &["--quiet"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("needed") && said(&output).contains("free"), "{}", said(&output));
    assert!(names(to.path()).is_empty());
    drop(receiver);

    let output = rc3().args(["recv", "--quiet", "--dir", "/proc/self"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(output.stdout, b"", "a ticket that nobody can use");
    assert!(said(&output).contains("receive into /proc/self"), "{}", said(&output));
}

/// Several senders at once, with files of the same name.
#[test]
fn senders_are_served_at_once() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let receiver = Receiver::start(to.path(), &["--keep"]);
    let senders: Vec<_> = (0..4)
        .map(|number| {
            let top = from.path().join(format!("{number}"));
            fs::create_dir(&top).unwrap();
            fs::write(top.join("same"), content(3_000_000)).unwrap();
            fs::write(top.join(format!("own-{number}")), content(number)).unwrap();
            let mut command = rc3();
            let command = command.args(["send", "--json", "--rate-limit", "16mbit"]).arg(top.join("same"));
            command.arg(top.join(format!("own-{number}"))).arg(&receiver.ticket);
            command.stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    // Each has a part of its own.
    wait_until("not at once", || {
        names(to.path()).iter().filter(|name| name.starts_with(".same.") && !name.contains("record")).count()
            > 1
    });
    let outputs: Vec<_> = senders.into_iter().map(|sender| sender.wait_with_output().unwrap()).collect();
    // The first to complete has the name; the others find the same content there.
    for output in outputs {
        assert!(output.status.success(), "{}", last_event(&output));
    }
    assert_eq!(names(to.path()).len(), 5, "{:?}", names(to.path()));
    assert!(fs::read(to.path().join("same")).unwrap() == content(3_000_000));
}
