//! Identities: who may connect, and to whom.

use std::{fs, os::unix::fs::PermissionsExt};

use super::harness::*;

/// Runs a client to its end, its standard input empty.
fn run(
    state: &std::path::Path,
    target: std::net::SocketAddr,
    peer: &[&str],
    ticket: Option<&str>,
) -> (Option<i32>, String) {
    let to = format!("--stdio={target}");
    let mut process = stdio(state, &[&[to.as_str()], peer].concat(), ticket);
    drop(process.child.stdin.take());
    process.finish()
}

#[test]
fn a_ticket_pairs_both_sides_once() {
    let server = Server::start(&[]);
    let (state, echo) = (tempfile::tempdir().unwrap(), echo());
    let (code, said) = run(state.path(), echo, &["--name", "far"], Some(&server.ticket));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("rc3 tunnel far"), "{said}");
    for (directory, name, words) in
        [(state.path(), "known_peers", 3), (server.state.path(), "authorized_peers", 4)]
    {
        let path = directory.join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!((text.lines().count(), text.split_whitespace().count()), (1, words), "{text}");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(directory.join("identity").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    // From now on by name, without the ticket, and without another line.
    assert_eq!(run(state.path(), echo, &["far"], None).0, Some(0));
    assert_eq!(run(state.path(), echo, &["--name", "far"], Some(&server.ticket)).0, Some(0));
    let lines = fs::read_to_string(server.state.path().join("authorized_peers")).unwrap().lines().count();
    assert_eq!(lines, 1);

    // A restart without tickets has the same identity, at another port.
    let state_of_server = server.state;
    drop(server.process);
    let server = Server::start_in(state_of_server, &["--no-ticket"]);
    let known = state.path().join("known_peers");
    let text = fs::read_to_string(&known).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    fs::write(&known, format!("far {} {}\n", server.address, words[2])).unwrap();
    assert_eq!(run(state.path(), echo, &["far"], None).0, Some(0));

    // Removing the line revokes it.
    fs::write(server.state.path().join("authorized_peers"), "").unwrap();
    let (code, said) = run(state.path(), echo, &["far"], None);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("does not authorise this identity") && said.contains("hint: "), "{said}");
}

#[test]
fn an_identity_can_be_authorised_by_hand() {
    let server = Server::start(&["--no-ticket"]);
    let (state, echo) = (tempfile::tempdir().unwrap(), echo());
    let shown = rc3(state.path()).arg("--show-identity").output().unwrap();
    fs::write(server.state.path().join("authorized_peers"), &shown.stdout).unwrap();
    let listening = rc3(server.state.path()).arg("--show-identity").output().unwrap();
    let line = format!("far {} {}", server.address, String::from_utf8(listening.stdout).unwrap());
    fs::write(state.path().join("known_peers"), line).unwrap();
    assert_eq!(run(state.path(), echo, &["far"], None).0, Some(0));
}

#[test]
fn a_peer_with_another_identity_than_the_pinned_one_is_refused() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    let (state, echo) = (tempfile::tempdir().unwrap(), echo());
    assert_eq!(run(state.path(), echo, &["--name", "far"], Some(&first.ticket)).0, Some(0));
    // By a ticket for the same name: the secret is not even sent.
    let (code, said) = run(state.path(), echo, &["--name", "far"], Some(&second.ticket));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the identity of far has changed"), "{said}");
    // By an address at which another host answers.
    let known = state.path().join("known_peers");
    let text = fs::read_to_string(&known).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    fs::write(&known, format!("far {} {}\n", second.address, words[2])).unwrap();
    let (code, said) = run(state.path(), echo, &["far"], None);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("another identity"), "{said}");
    let (code, said) = run(state.path(), echo, &["near"], None);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("near is not a known peer"), "{said}");
}

#[test]
fn an_identity_that_others_can_read_is_refused() {
    let server = Server::start(&[]);
    let state = tempfile::tempdir().unwrap();
    let echo = echo();
    assert_eq!(run(state.path(), echo, &[], Some(&server.ticket)).0, Some(0));
    let identity = state.path().join("identity");
    fs::set_permissions(&identity, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, said) = run(state.path(), echo, &[], Some(&server.ticket));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("has mode 644") && said.contains("chmod 600"), "{said}");
}
