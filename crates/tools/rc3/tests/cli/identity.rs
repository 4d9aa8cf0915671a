//! `rc3 recv --identity`: a ticket that survives a restart.
#![cfg(unix)]

use std::{
    fs,
    io::{BufRead, BufReader},
    net::UdpSocket,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Stdio},
};

use crate::support::rc3;

/// A receiver with a fixed identity and address, and its ticket.
fn receiver(directory: &Path, address: &str, identity: &Path) -> (Child, String) {
    let mut command = rc3();
    command
        .args(["recv", "--quiet", "--listen", address, "--identity"])
        .arg(identity)
        .arg("--dir")
        .arg(directory);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut ticket = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ticket).unwrap();
    (child, ticket.trim().to_owned())
}

#[test]
fn a_ticket_is_valid_after_a_restart() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let identity = from.path().join("identity");
    // Free now; another program could take it meanwhile.
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (mut first, ticket) = receiver(to.path(), &address, &identity);
    assert_eq!(identity.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    first.kill().unwrap();
    first.wait().unwrap();

    let (mut second, again) = receiver(to.path(), &address, &identity);
    assert_eq!(again, ticket);
    let file = from.path().join("file");
    fs::write(&file, b"content").unwrap();
    let sent = rc3().arg("send").arg(&file).arg(&ticket).output().unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(second.wait().unwrap().success());
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"content");

    // Another identity has another ticket, which the receiver of the first one refuses.
    let (mut third, other) = receiver(to.path(), &address, &from.path().join("other"));
    assert_ne!(other, ticket);
    let sent = rc3().arg("send").arg(&file).arg(&ticket).output().unwrap();
    assert_eq!(sent.status.code(), Some(4), "{}", String::from_utf8_lossy(&sent.stderr));
    third.kill().unwrap();
    third.wait().unwrap();
}

#[test]
fn a_damaged_identity_is_an_error_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let identity = directory.path().join("identity");
    fs::write(&identity, "not one").unwrap();
    fs::set_permissions(&identity, fs::Permissions::from_mode(0o600)).unwrap();
    let command = ["recv", "--listen", "127.0.0.1", "--identity"];
    let output = rc3().args(command).arg(&identity).arg("--dir").arg(directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is not an identity") && said.contains("hint: "), "{said}");
    // Without a fixed port the ticket could not survive.
    let output = rc3().args(["recv", "--identity", "x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
