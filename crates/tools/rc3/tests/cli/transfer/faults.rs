//! One bad entry costs no other: it is left out and named at both ends, which exit with code 7.

use std::{
    fs::{self, File},
    os::unix::{
        fs::{FileExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use super::harness::*;

const GOOD: usize = 40;

/// A directory with good files, which everybody may read.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let from = temporary();
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    for number in 0..GOOD {
        fs::write(top.join(format!("{number:03}")), content(20_000 + number)).unwrap();
    }
    (from, top)
}

/// One that other users can enter.
fn temporary() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    directory
}

/// A command of a user whom permissions bind.
fn bound(mut command: Command) -> Command {
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    command
}

fn good_arrived(to: &Path) {
    for number in 0..GOOD {
        let name = format!("top/{number:03}");
        assert!(fs::read(to.join(&name)).unwrap() == content(20_000 + number), "{name}");
    }
}

/// Starts a sender of `top`.
fn sender(receiver: &Receiver, top: &Path, flags: &[&str]) -> Child {
    let mut command = bound(rc3());
    command.arg("send").args(flags).arg(top).arg(&receiver.ticket);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the sender starts")
}

fn receiver(to: &Path, flags: &[&str]) -> Receiver {
    Receiver::run(rc3(), to, flags)
}

/// Both ends leave out exactly these entries, for this reason.
fn both_leave_out(child: Child, receiver: Receiver, names: &[&str], reason: &str) {
    let output = child.wait_with_output().unwrap();
    let (there, here) = (receiver.finish(), said(&output));
    assert_eq!((output.status.code(), there.0), (Some(7), Some(7)), "{here}\n{}", there.1);
    for text in [&here, &there.1] {
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("left out: ")).collect();
        assert_eq!(lines.len(), names.len(), "{text}");
        for name in names {
            assert!(lines.iter().any(|line| line.contains(name) && line.contains(reason)), "{name}: {text}");
        }
        let verified = text.lines().find(|line| line.starts_with("verified: ")).expect("a summary");
        assert!(verified.contains(&format!("{GOOD} files")), "{text}");
    }
}

#[test]
fn what_the_sender_cannot_read_is_left_out() {
    let (_from, top) = folder();
    let to = temporary();
    for (name, directory) in [("secret", false), ("private", true)] {
        let path = top.join(name);
        if directory {
            fs::create_dir(&path).unwrap()
        } else {
            fs::write(&path, b"no").unwrap()
        }
        fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
        let receiver = receiver(to.path(), &[]);
        let child = sender(&receiver, &top, &[]);
        both_leave_out(child, receiver, &[name], "Permission denied");
        good_arrived(to.path());
        assert_eq!(names(&to.path().join("top")).len(), GOOD, "no part is left");
        if directory {
            fs::remove_dir(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
        fs::remove_dir_all(to.path().join("top")).unwrap();
    }
}

#[test]
fn a_path_that_does_not_exist_costs_no_other() {
    let (from, top) = folder();
    let to = temporary();
    let receiver = receiver(to.path(), &[]);
    let output = send(&receiver.ticket, &[&from.path().join("missing"), &top], &[]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(said(&output).contains("missing (cannot read it: No such file"), "{}", said(&output));
    let (code, heard) = receiver.finish();
    assert_eq!(code, Some(7), "{heard}");
    assert!(heard.contains("left out: missing"), "{heard}");
    good_arrived(to.path());
}

/// The last of the files vanishes, shrinks, or turns into something else while the first are sent.
#[test]
fn what_vanishes_or_is_swapped_is_left_out() {
    type Swap<'a> = (&'a dyn Fn(&Path), &'a str);
    let swaps: [Swap<'_>; 3] = [
        (&|path| fs::remove_file(path).unwrap(), "No such file"),
        (
            &|path| {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
            },
            "changed",
        ),
        (
            &|path| {
                fs::remove_file(path).unwrap();
                let mode = rustix::fs::Mode::from_raw_mode(0o644);
                rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
            },
            "changed",
        ),
    ];
    for (swap, reason) in swaps {
        let (_from, top) = folder();
        let to = temporary();
        fs::write(top.join("zzz"), content(300_000)).unwrap();
        let receiver = receiver(to.path(), &[]);
        let child = sender(&receiver, &top, &["--rate-limit", "4mbit"]);
        wait_until("nothing arrives", || to.path().join("top/000").exists());
        swap(&top.join("zzz"));
        both_leave_out(child, receiver, &["zzz"], reason);
        good_arrived(to.path());
        assert_eq!(names(&to.path().join("top")).len(), GOOD);
    }
}

/// Changes a file once while it is sent; returns what arrives in the end.
fn changed_once(change: impl Fn(&Path)) -> (Vec<u8>, Vec<u8>) {
    let (_from, top) = folder();
    let to = temporary();
    let file = top.join("zzz");
    fs::write(&file, content(6_000_000)).unwrap();
    let receiver = receiver(to.path(), &[]);
    let child = sender(&receiver, &top, &["--rate-limit", "16mbit"]);
    wait_until("nothing arrives", || to.path().join("top/000").exists());
    change(&file);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    good_arrived(to.path());
    let names = names(&to.path().join("top"));
    assert_eq!(names.len(), GOOD + 1, "{names:?}");
    (fs::read(to.path().join("top/zzz")).unwrap(), fs::read(&file).unwrap())
}

#[test]
fn a_file_that_changes_once_arrives_as_it_is_then() {
    let write =
        |path: &Path, at: u64| File::options().write(true).open(path).unwrap().write_at(b"new", at).unwrap();
    let (arrived, new) = changed_once(|path| {
        write(path, 0);
        write(path, 5_999_990);
    });
    assert!(arrived == new && new.starts_with(b"new"));
    let (arrived, new) = changed_once(|path| assert_eq!(write(path, 6_000_000), 3));
    assert!(arrived == new && new.len() == 6_000_003, "appended bytes");
    let (arrived, new) =
        changed_once(|path| File::options().write(true).open(path).unwrap().set_len(999_999).unwrap());
    assert!(arrived == new && new.len() == 999_999, "cut bytes");
    let (arrived, new) = changed_once(|path| {
        fs::write(path.with_extension("new"), b"replaced").unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    });
    assert!(arrived == new && new == b"replaced");
}

#[test]
fn a_file_that_keeps_changing_is_left_out_and_never_verified() {
    let (_from, top) = folder();
    let to = temporary();
    let file = top.join("db");
    fs::write(&file, content(6_000_000)).unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let db = File::options().write(true).open(&file).unwrap();
            // Not for ever, if the test fails.
            for version in 0_u64..6000 {
                for at in [0, 5_999_992] {
                    db.write_at(&version.to_be_bytes(), at).unwrap();
                }
                std::thread::sleep(Duration::from_millis(10));
                if ends.load(Relaxed) {
                    return;
                }
            }
        });
        let receiver = receiver(to.path(), &[]);
        let child = sender(&receiver, &top, &["--rate-limit", "20mbit"]);
        both_leave_out(child, receiver, &["db"], "it changed while it was sent");
        ends.store(true, Relaxed);
    });
    good_arrived(to.path());
    assert_eq!(names(&to.path().join("top")).len(), GOOD, "no part is left");
}

#[test]
fn what_the_receiving_system_refuses_is_left_out() {
    let (_from, top) = folder();
    let to = temporary();
    fs::create_dir(top.join("locked")).unwrap();
    fs::create_dir(top.join("locked/in")).unwrap();
    fs::write(top.join("locked/in/a"), b"1").unwrap();
    fs::write(top.join("locked/b"), b"2").unwrap();
    for path in ["", "locked"] {
        fs::create_dir_all(to.path().join("top").join(path)).unwrap();
    }
    let locked = to.path().join("top/locked");
    fs::set_permissions(&locked, PermissionsExt::from_mode(0o555)).unwrap();
    if rustix::process::geteuid().is_root() {
        for path in [to.path().to_owned(), to.path().join("top")] {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        }
    }
    let receiver = Receiver::run(bound(rc3()), to.path(), &[]);
    let child = sender(&receiver, &top, &[]);
    both_leave_out(child, receiver, &["locked/in", "locked/in/a", "locked/b"], "Permission denied");
    good_arrived(to.path());
    fs::set_permissions(&locked, PermissionsExt::from_mode(0o755)).unwrap();
}

/// An existing file that cannot be read cannot be compared.
#[test]
fn an_existing_file_that_cannot_be_compared_costs_no_other() {
    let (_from, top) = folder();
    let to = temporary();
    fs::create_dir(to.path().join("top")).unwrap();
    fs::write(top.join("x"), b"1").unwrap();
    fs::write(to.path().join("top/x"), b"2").unwrap();
    fs::set_permissions(to.path().join("top/x"), PermissionsExt::from_mode(0o000)).unwrap();
    if rustix::process::geteuid().is_root() {
        for path in [to.path().to_owned(), to.path().join("top")] {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        }
    }
    let receiver = Receiver::run(bound(rc3()), to.path(), &[]);
    let child = sender(&receiver, &top, &[]);
    both_leave_out(child, receiver, &["top/x"], "cannot read what has its name: Permission denied");
    good_arrived(to.path());
}

#[cfg(target_os = "linux")]
#[test]
fn files_whose_length_does_not_show_their_content_arrive_whole() {
    let to = temporary();
    let sources = ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"];
    let sources: Vec<_> = sources.iter().map(Path::new).filter(|path| path.exists()).collect();
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &sources, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    for source in sources {
        let arrived = fs::read(to.path().join(source.file_name().unwrap())).unwrap();
        assert!(!arrived.is_empty() && arrived == fs::read(source).unwrap(), "{}", source.display());
    }
}
