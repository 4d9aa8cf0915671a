//! Senders and receivers that meet at `rc3 meet`, as processes over loopback.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Output, Stdio},
};

use super::harness::*;

/// A running rendezvous; killed when the test ends.
struct Rendezvous {
    child: Child,
    place: String,
}

impl Rendezvous {
    fn start(flags: &[&str]) -> Self {
        let mut command = rc3();
        command.args(["meet", "--listen", "127.0.0.1"]).args(flags);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut place = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut place).unwrap();
        Self { child, place: place.trim().to_owned() }
    }

    /// A receiver there, which prints only its code and errors.
    fn receiver(&self, to: &Path) -> Receiver {
        Receiver::start(to, &["--meet", &self.place])
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a file by a code.
fn send(from: &Path, code: &str, flags: &[&str]) -> Output {
    rc3().args(["send", "--quiet"]).arg(from).arg(code).args(flags).output().unwrap()
}

fn written(directory: &Path, content: &[u8]) -> std::path::PathBuf {
    let path = directory.join("file");
    fs::write(&path, content).unwrap();
    path
}

/// The same code with another last word.
fn mistyped(code: &str) -> String {
    let (words, place) = code.split_once('@').unwrap();
    let (words, last) = words.rsplit_once('-').unwrap();
    format!("{words}-{}@{place}", if last == "zinc" { "able" } else { "zinc" })
}

#[test]
fn a_file_arrives_by_a_code_alone_which_is_good_once() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content = vec![7; 3_000_000];
    let file = written(from.path(), &content);
    for flags in [&[][..], &["--relay"]] {
        let rendezvous = Rendezvous::start(flags);
        let receiver = rendezvous.receiver(to.path());
        let code = receiver.ticket.clone();
        // The place may come from elsewhere, and the code in capitals.
        let (words, place) = code.split_once('@').unwrap();
        assert_eq!(place, rendezvous.place);
        let sent = send(&file, &words.to_uppercase(), &["--meet", place]);
        assert!(sent.status.success(), "{}", said(&sent));
        assert_eq!(receiver.finish(), (Some(0), String::new()));
        assert_eq!(fs::read(to.path().join("file")).unwrap(), content);
        fs::remove_file(to.path().join("file")).unwrap();
        let again = send(&file, &code, &[]);
        assert_eq!(again.status.code(), Some(4));
        assert!(said(&again).contains("does not know the code"), "{}", said(&again));
    }
}

#[test]
fn a_wrong_code_fails_at_both_ends_and_ends_the_room() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = written(from.path(), b"x");
    let rendezvous = Rendezvous::start(&[]);
    let receiver = rendezvous.receiver(to.path());
    let code = receiver.ticket.clone();
    let sent = send(&file, &mistyped(&code), &[]);
    assert_eq!(sent.status.code(), Some(4));
    assert!(said(&sent).contains("the code is wrong, and now void"), "{}", said(&sent));
    let (status, said_there) = receiver.finish();
    assert_eq!(status, Some(4));
    assert!(said_there.contains("the code is wrong, and now void"), "{said_there}");
    let late = send(&file, &code, &[]);
    assert!(said(&late).contains("does not know the code"), "{}", said(&late));
    assert_eq!(tree(to.path()), []);
}

#[test]
fn pipes_and_dry_runs_use_a_code_up() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = written(from.path(), b"x");
    let rendezvous = Rendezvous::start(&[]);
    let receiver = rendezvous.receiver(to.path());
    let sent = send(&file, &receiver.ticket.clone(), &["--dry-run"]);
    assert!(sent.status.success(), "{}", said(&sent));
    assert_eq!(receiver.finish(), (Some(0), String::new()));
    let receiver = rendezvous.receiver(to.path());
    let mut command = rc3();
    command.args(["send", "-", "--quiet", "--name", "piped"]).env("RC3_TICKET", &receiver.ticket);
    let sent = command.stdin(fs::File::open(&file).unwrap()).output().unwrap();
    assert!(sent.status.success(), "{}", said(&sent));
    assert_eq!(receiver.finish(), (Some(0), String::new()));
    assert_eq!(tree(to.path()), [("piped".to_owned(), b"x".to_vec())]);
}

#[test]
fn a_receiver_that_keeps_on_has_a_new_code_for_each_sender() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rendezvous = Rendezvous::start(&[]);
    let mut receiver = Receiver::start(to.path(), &["--meet", &rendezvous.place, "--keep"]);
    let mut codes = vec![receiver.ticket.clone()];
    let mut next = |codes: &mut Vec<String>| {
        let mut code = String::new();
        receiver.out.read_line(&mut code).unwrap();
        codes.push(code.trim().to_owned());
    };
    for nth in 0..2 {
        let file = from.path().join(format!("file-{nth}"));
        fs::write(&file, [nth]).unwrap();
        let sent = send(&file, &codes[codes.len() - 1], &[]);
        assert!(sent.status.success(), "{}", said(&sent));
        next(&mut codes);
        // A wrong one costs only itself.
        let wrong = send(&file, &mistyped(&codes[codes.len() - 1]), &[]);
        assert_eq!(wrong.status.code(), Some(4), "{}", said(&wrong));
        next(&mut codes);
    }
    let different: std::collections::HashSet<_> = codes.iter().map(|code| code.split_once('-')).collect();
    assert_eq!(different.len(), 5, "{codes:?}");
    assert_eq!(tree(to.path()), [("file-0".to_owned(), vec![0]), ("file-1".to_owned(), vec![1])]);
    let id = receiver.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let (status, said_there) = receiver.finish();
    assert_eq!(status, Some(130), "{said_there}");
    assert_eq!(said_there.matches("the code is wrong, and now void").count(), 2, "{said_there}");
}

#[test]
fn options_of_tickets_are_refused_with_the_reason() {
    let to = tempfile::tempdir().unwrap();
    let file = to.path().join("x");
    for (flag, value, why) in [
        ("--identity", file.to_str().unwrap(), "no list of receivers"),
        ("--ticket-file", file.to_str().unwrap(), "is for people"),
        ("--advertise", "host", "find each other's addresses"),
    ] {
        let command = ["recv", "--bind", "127.0.0.1", "--meet", "127.0.0.1:1", flag, value];
        let output = rc3().args(command).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
    assert_eq!(tree(to.path()), []);
}

#[test]
fn an_interrupted_transfer_goes_on_with_a_new_code() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content: Vec<u8> = (0..20_000_000_u32).map(|nth| (nth / 1000) as u8).collect();
    let file = written(from.path(), &content);
    let rendezvous = Rendezvous::start(&[]);
    let receiver = rendezvous.receiver(to.path());
    let mut command = rc3();
    command.args(["send", "--quiet", "--rate-limit", "20mbit"]).arg(&file).arg(&receiver.ticket);
    let mut sender = command.spawn().unwrap();
    let has_part =
        || tree(to.path()).iter().any(|(name, part)| name.ends_with("rc3-part") && part.len() > 4_000_000);
    wait_until("nothing arrives", has_part);
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &sender.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    sender.wait().unwrap();
    let (status, why) = receiver.finish();
    assert!(status == Some(1) && why.contains("with a new code"), "{status:?} {why}");
    let receiver = rendezvous.receiver(to.path());
    let sent = send(&file, &receiver.ticket.clone(), &[]);
    assert!(sent.status.success(), "{}", said(&sent));
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(tree(to.path()), [("file".to_owned(), content)]);
}

#[test]
fn what_is_missing_is_named() {
    let from = tempfile::tempdir().unwrap();
    let file = written(from.path(), b"x");
    let nowhere = send(&file, "7-able-acid-zinc", &[]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(said(&nowhere).contains("RC3_MEET"), "{}", said(&nowhere));
    let mistyped = send(&file, "7-able-acid-zink", &["--meet", "127.0.0.1:1"]);
    assert!(said(&mistyped).contains("mistyped"), "{}", said(&mistyped));
    let rendezvous = Rendezvous::start(&[]);
    let nobody = send(&file, "7-able-acid-zinc", &["--meet", &rendezvous.place]);
    assert!(said(&nobody).contains("does not know the code"), "{}", said(&nobody));
}

/// A service manager stops it, and it says so to who waits.
#[test]
fn a_rendezvous_that_is_stopped_ends_well_and_tells_who_waits() {
    let to = tempfile::tempdir().unwrap();
    let mut rendezvous = Rendezvous::start(&[]);
    let receiver = rendezvous.receiver(to.path());
    let id = rendezvous.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(rendezvous.child.wait().unwrap().success());
    let (status, why) = receiver.finish();
    assert!(status == Some(1) && why.contains("stopped"), "{status:?} {why}");
}

/// In a network of its own, where no datagram reaches the receiver but those of the rendezvous: starts that and both ends,
/// runs `then` while they are at work, and waits for both.
#[cfg(target_os = "linux")]
fn relayed(then: &str) -> Option<(Output, bool)> {
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        crate::skip::skipped("nft");
        return None;
    }
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = written(from.path(), &content(6_000_000));
    let script = format!(
        "nft 'add table ip t; add chain ip t in {{ type filter hook input priority 0; }}
            add rule ip t in ip daddr 127.0.0.2 udp sport != {{ 4435, 4436 }} drop' || exit 99
        \"$1\" meet --listen 127.0.0.1:4435 --relay=4436 > /dev/null & m=$!
        code=\"$3/code\"
        \"$1\" recv --bind 127.0.0.2 --dir \"$3\" --meet 127.0.0.1:4435 > \"$code\" & r=$!
        while [ ! -s \"$code\" ]; do sleep 0.1; done
        \"$1\" send \"$2\" \"$(cat \"$code\")\" 2> \"$3/said\" & s=$!
        until grep -q 'sending 6 MB' \"$3/said\" || ! kill -0 $s; do sleep 0.1; done
        {then}
        wait $s; sent=$?; wait $r; echo $sent $?; kill $m; cat \"$3/said\" >&2"
    );
    let output = in_own_network(&script, &[&file, to.path()])?;
    let is_there = fs::read(to.path().join("file")).is_ok_and(|there| there == content(6_000_000));
    Some((output, is_there))
}

/// A shorter outage than the time after which a rendezvous forgets a room.
#[cfg(target_os = "linux")]
#[test]
fn the_relay_carries_what_nothing_else_does_and_an_outage_ends_it_not() {
    let Some((output, is_there)) = relayed("ip link set lo down; sleep 8; ip link set lo up") else { return };
    let said = said(&output);
    assert_eq!((output.stdout, is_there), (b"0 0\n".to_vec(), true), "{said}");
    assert!(
        said.contains("through the relay") && said.contains("it goes on when the path is back"),
        "{said}"
    );
}

/// The sender's connection to the rendezvous proves the new address first.
#[cfg(target_os = "linux")]
#[test]
fn the_relay_knows_an_end_at_its_new_address() {
    let then = "ip addr add 127.0.0.9/8 dev lo
        ip route replace local 127.0.0.1 dev lo table local proto kernel scope host src 127.0.0.9";
    let Some((output, is_there)) = relayed(then) else { return };
    let said = said(&output);
    assert_eq!((output.stdout, is_there), (b"0 0\n".to_vec(), true), "{said}");
    assert!(said.contains("it goes on when the path is back"), "it did not move: {said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_relay_that_is_stopped_ends_the_transfer_at_both_ends() {
    let Some((output, is_there)) = relayed("kill $m") else { return };
    let said = said(&output);
    assert_eq!((output.stdout, is_there), (b"1 1\n".to_vec(), false), "{said}");
    assert_eq!(said.matches("run both commands again, with a new code").count(), 2, "{said}");
}
