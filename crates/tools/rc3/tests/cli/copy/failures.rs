//! Each failure has one line, a hint and its exit code.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rc3::copy::VERSION;
use tempfile::TempDir;

use super::harness::*;
use crate::{real_sshd::runs, skip::skipped};

/// Copies a small file, which must fail; returns the exit code and standard error.
fn failure(fake: &Fake, flags: &[&str]) -> (Option<i32>, String) {
    let (from, to) = (temporary(), temporary());
    fs::write(from.path().join("f"), b"1").unwrap();
    let output = fake.copy(flags, &[&from.path().join("f"), &there(to.path())]);
    assert_eq!(tree(to.path()), [], "nothing arrives");
    (output.status.code(), said(&output))
}

#[test]
fn ssh_and_rc3_may_be_missing() {
    let fake = Fake::with("");
    fs::remove_file(fake.path()).unwrap();
    let (code, said) = failure(&fake, &[]);
    assert_eq!((code, said.lines().count()), (Some(8), 2), "{said}");
    let (code, said) = failure(&Fake::script("echo sh: rc3: not found >&2; exit 127"), &[]);
    assert_eq!((code, said.lines().count()), (Some(9), 3), "{said}");
    assert!(said.contains("--rc3-path"), "{said}");
}

#[test]
fn failures_of_ssh_pass_through() {
    let (code, said) = failure(&Fake::script("echo ssh: connect to host there: refused >&2; exit 255"), &[]);
    assert_eq!(code, Some(255), "{said}");
    assert!(said.starts_with("ssh: connect to host there: refused\n"), "{said}");
}

#[test]
fn other_versions_are_recognised() {
    for code in ["echo rc3-copy-peer 9; cat >/dev/null", "echo error: unrecognized subcommand >&2; exit 2"] {
        let (code, said) = failure(&Fake::script(code), &[]);
        assert_eq!(code, Some(10), "{said}");
        assert!(said.contains("same version"), "{said}");
    }
}

#[test]
fn udp_that_nobody_answers_is_named() {
    // A socket that nobody reads, as behind a firewall that drops.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut varint = Vec::new();
    let mut rest = port;
    while rest > 127 {
        varint.push((rest & 127) as u8 | 128);
        rest >>= 7;
    }
    varint.push(rest as u8);
    // The reply `Listening` with one IPv4 address, a fingerprint and a secret.
    let body = [&[2, 0, 1, 0, 127, 0, 0, 1][..], &varint, &[7; 48]].concat();
    let frame =
        [format!("rc3-copy-peer {VERSION}\n\0\0\0").as_bytes(), &[body.len() as u8][..], &body].concat();
    let directory = temporary();
    fs::write(directory.path().join("frame"), frame).unwrap();
    let fake = Fake::script(&format!("cat {}/frame; cat >/dev/null", directory.path().display()));
    let (code, said) = failure(&fake, &["--via-ssh=never"]);
    assert_eq!((code, said.lines().count()), (Some(11), 2), "{said}");
    assert!(said.contains(&format!("UDP does not reach there (tried 127.0.0.1:{port})")), "{said}");
    silent.set_nonblocking(true).unwrap();
    let asked = (0..100).take_while(|_| silent.recv(&mut [0; 2000]).is_ok()).count();
    assert!((1..=10).contains(&asked), "{asked} packets to whoever is there");
}

/// The far end in a network of its own, to which only ssh leads, and a file of the source; nothing if this user may not make
/// networks.
fn firewalled(from: &TempDir) -> Option<Fake> {
    if !runs("unshare", &["-rn", "ip", "link", "set", "lo", "up"]) {
        skipped("a network namespace (unshare -rn)");
        return None;
    }
    fs::write(from.path().join("f"), content(200_000)).unwrap();
    Some(Fake::script(
        "shift; export SSH_CONNECTION='127.0.0.1 1 192.0.2.1 22'\n\
         exec unshare -rn sh -c \"ip link set lo up; exec $*\"",
    ))
}

#[test]
fn firewalls_are_bypassed_through_the_same_ssh() {
    let (from, to, back) = (temporary(), temporary(), temporary());
    let Some(fake) = firewalled(&from) else { return };
    let source = from.path().join("f");
    let copied = [[source.clone(), there(to.path())], [there(&to.path().join("f")), back.path().to_owned()]];
    for [source, destination] in &copied {
        let output = fake.copy(&[], &[source, destination]);
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        let note = said.lines().filter(|line| line.contains("UDP does not reach there (tried 192.0.2.1:"));
        assert_eq!(note.filter(|line| line.ends_with("; the data goes through ssh")).count(), 1, "{said}");
    }
    assert_eq!(tree(back.path()), tree(from.path()));
}

#[test]
fn ssh_carries_nothing_if_it_must_not() {
    let (from, to) = (temporary(), temporary());
    let Some(fake) = firewalled(&from) else { return };
    // In the background it must not either: TCP yields to nobody.
    for option in ["--via-ssh=never", "--background"] {
        let output = fake.copy(&[option], &[&*from.path().join("f"), &*there(to.path())]);
        assert_eq!(output.status.code(), Some(11), "{}", said(&output));
        assert!(said(&output).contains(option), "{}", said(&output));
        assert_eq!(tree(to.path()), []);
    }
}

/// What was prepared before the near end gives UDP up counts, and what is wrong there is said at once.
#[test]
fn a_far_end_that_fails_behind_a_firewall_says_why() {
    let (from, to) = (temporary(), temporary());
    let Some(fake) = firewalled(&from) else { return };
    let output = fake.copy(&[], &[&from.path().join("f"), &there(&to.path().join("no/dir/"))]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).starts_with("rc3: there: cannot copy into"), "{}", said(&output));
}

#[test]
fn garbage_and_lies_are_bounded() {
    // The magic line, then a frame.
    let after_magic = |bytes: &str| format!("printf 'rc3-copy-peer {VERSION}\\n{bytes}'; cat >/dev/null");
    for code in [
        "yes | tr -d '\\n'".to_owned(),
        "yes banner".to_owned(),
        after_magic(r"\377\377\377\377"),
        after_magic(r"\0\0\0\1\377"),
        after_magic(r"\0\0\0\3\2\2\0"),
        format!("printf 'rc3-copy-peer {VERSION}\\n\\0\\0'"),
        "exit 3".to_owned(),
        "kill -9 $$".to_owned(),
    ] {
        let (exit, said) = failure(&Fake::script(&code), &[]);
        assert_eq!(exit, Some(1), "{code}: {said}");
        assert_eq!(said.lines().count(), 2, "{code}: {said}");
    }
}

#[test]
fn messages_of_the_other_host_cannot_control_the_terminal() {
    let message = r"\0\0\0\11\2\1\4\033[2J\1\n";
    let fake = Fake::script(&format!("printf 'rc3-copy-peer {VERSION}\\n{message}'; cat >/dev/null"));
    let (code, said) = failure(&fake, &[]);
    assert_eq!(code, Some(1), "{said:?}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn what_is_wrong_there_is_explained_here() {
    let to = temporary();
    let missing = there(&to.path().join("missing"));
    let output = Fake::with("").copy(&[], &[&missing, to.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).starts_with("rc3: there: cannot read"), "{}", said(&output));
    let (from, nowhere) = (temporary(), there(&to.path().join("no/dir/")));
    let output = Fake::with("").copy(&[], &[from.path(), &nowhere]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).starts_with("rc3: there: cannot copy into"), "{}", said(&output));
    let output = Fake::with("").copy(&["--address", "rc3.invalid"], &[from.path(), &there(to.path())]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("--address"), "{}", said(&output));
}

#[test]
fn only_what_was_asked_for_arrives() {
    let (from, to) = (temporary(), temporary());
    fs::write(from.path().join("@@"), b"asked").unwrap();
    fs::write(from.path().join("%%"), b"evil").unwrap();
    // The far end reads a changed request, and sends a file of another name.
    let lie = "shift; export SSH_CONNECTION='1 1 127.0.0.1 22'; stdbuf -o0 tr @ % | sh -c \"exec $*\"";
    let output = Fake::script(lie).copy(&[], &[&there(&from.path().join("@@")), to.path()]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("something that was not asked for"), "{}", said(&output));
    assert_eq!(tree(to.path()), []);
}

#[test]
fn a_far_end_that_dies_is_started_again_and_goes_on() {
    dies_and_goes_on(&["large"], |source, to| [source.join("large"), there(to)]);
}

/// The directory is there by then, and must not get itself as a content.
#[test]
fn a_directory_with_a_new_name_has_it_once_however_often_ssh_ends() {
    dies_and_goes_on(&["new/", "new/large"], |source, to| [source.to_owned(), there(&to.join("new"))]);
}

/// Copies a large file, while the far end is killed once, and expects these names at the destination, the file's last.
fn dies_and_goes_on(expected: &[&str], places: impl Fn(&Path, &Path) -> [PathBuf; 2]) {
    let (from, to) = (temporary(), temporary());
    let source = from.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("large"), content(20_000_000)).unwrap();
    let pid = from.path().join("pid");
    let fake = Fake::with(&format!("echo $$ >{}", pid.display()));
    let [source, destination] = places(&source, to.path());
    let flags = ["--rate-limit", "40mbit", "--json"];
    let child = fake.command(&flags, &[&source, &destination]).spawn().expect("rc3 starts");
    // More than what is sent before the receiver has answered.
    let arrived = |(_, content): &(String, Vec<u8>)| content.len() > 5_000_000;
    wait_until("nothing arrives", || tree(to.path()).iter().any(arrived));
    // `exec` makes the script the far end.
    signal(process_in(&pid), "-KILL");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let events = String::from_utf8_lossy(&output.stdout);
    assert!(events.contains("lost the connection: ssh or the far end ended"), "{events}");
    let (names, contents): (Vec<_>, Vec<_>) = tree(to.path()).into_iter().unzip();
    assert_eq!(names, expected);
    assert!(contents.last() == Some(&content(20_000_000)), "other content");
}

#[test]
fn a_far_end_ends_with_its_ssh_before_both_have_met() {
    let (from, to) = (temporary(), temporary());
    fs::write(from.path().join("f"), b"1").unwrap();
    let pid = from.path().join("pid");
    // The near end hears nothing.
    let fake = Fake::with(&format!("echo $$ >{}; exec 3>&1 >/dev/null", pid.display()));
    let places = [from.path().join("f"), there(to.path())];
    let mut child = fake.command(&[], &[&places[0], &places[1]]).spawn().expect("rc3 starts");
    wait_until("no far end", || fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    let far = process_in(&pid);
    let runs = || fs::read(format!("/proc/{far}/cmdline")).is_ok_and(|line| !line.is_empty());
    // It has the request by then.
    std::thread::sleep(Duration::from_secs(1));
    assert!(runs(), "the far end waits");
    child.kill().unwrap();
    child.wait().unwrap();
    // A near end may take a minute to meet.
    let until = Instant::now() + Duration::from_secs(20);
    while runs() {
        assert!(Instant::now() < until, "the far end stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The number in a file.
fn process_in(file: &Path) -> u32 {
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}
