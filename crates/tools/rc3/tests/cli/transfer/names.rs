//! Names that need special care.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};

use super::harness::*;

#[test]
fn names_that_are_no_text_and_names_like_parts_arrive() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    let odd: [&[u8]; 5] =
        [b"latin-\xe9", b"\xff\xfe", b"notes.rc3-part", b".hidden.rc3-part", b"caf\xc3\xa9"];
    let folder = top.join(OsStr::from_bytes(b"d\x80r"));
    fs::create_dir_all(&folder).unwrap();
    for name in odd {
        fs::write(top.join(OsStr::from_bytes(name)), name).unwrap();
        fs::write(folder.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&top], &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(receiver.finish().0, Some(0));
    for name in odd {
        for below in [Path::new("top"), Path::new(OsStr::from_bytes(b"top/d\x80r"))] {
            let path = to.path().join(below).join(OsStr::from_bytes(name));
            assert_eq!(fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")), name);
        }
    }
}

#[test]
fn what_is_left_out_is_said_and_shows_in_the_exit_code() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("good"), b"good").unwrap();
    // As a killed receiver leaves it.
    fs::write(top.join(".large.0123abcd.rc3-part"), b"part").unwrap();
    fs::write(top.join(".large.0123abcd-record.rc3-part"), b"record").unwrap();
    let receiver = Receiver::start(to.path(), &[]);
    let output = send(&receiver.ticket, &[&top], &["--quiet"]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(said(&output).contains("2 files were left out"), "{}", said(&output));
    assert_eq!(said(&output).lines().count(), 2, "{}", said(&output));
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(names(&to.path().join("top")), ["good"]);

    let receiver = Receiver::start(to.path(), &["--force"]);
    let output = send(&receiver.ticket, &[&top], &[]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(
        said(&output).contains("left out: ") && said(&output).contains(".large.0123abcd.rc3-part"),
        "{}",
        said(&output)
    );
    drop(receiver);
}

#[test]
fn names_cannot_steer_a_terminal_and_arrive_as_they_are() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    let tricky = "photo\u{202e}gpj.exe\u{1b}[2J\u{9b}1m\r";
    fs::write(top.join(tricky), content(10)).unwrap();
    let mut different = content(10);
    different[0] ^= 1;

    let receiver = Receiver::run(rc3(), to.path(), &["--keep"]);
    let mut both = Vec::new();
    for flags in [&["--json"][..], &["--dry-run", "--json"], &[]] {
        let output = send(&receiver.ticket, &[&top], flags);
        assert!(output.status.success(), "{}", said(&output));
        both.extend([output.stderr]);
        if !flags.contains(&"--dry-run") {
            both.push(output.stdout);
        }
    }
    assert_eq!(fs::read(to.path().join("top").join(tricky)).unwrap(), content(10));
    // An error that names the file, on both sides.
    fs::write(to.path().join("top").join(tricky), different).unwrap();
    let output = send(&receiver.ticket, &[&top], &[]);
    assert_eq!(output.status.code(), Some(5));
    both.push(output.stderr);
    kill(&receiver.child, "-INT");
    let heard = receiver.finish_loud();
    assert!(heard.contains("hidden characters") && heard.contains("\\u{202e}gpj"), "{heard}");
    both.push(heard.into_bytes());
    for text in both {
        let text = String::from_utf8(text).unwrap();
        let odd = text.chars().find(|&c| c != '\n' && (c.is_control() || c == '\u{202e}'));
        assert_eq!(odd, None, "{text:?}");
    }
}
