//! The addresses of a ticket, and which of them a sender tries.

use std::fs;

use rc3::transfer::ticket::Ticket;

use super::harness::*;

/// A link to nobody, with an address of each family. Duplicate address detection (RFC 4862 §5.4) takes a second.
const LINK: &str = "ip link add v0 type veth peer name v1 || exit 99
    ip addr add 192.168.50.2/24 dev v0; ip link set v0 up; ip link set v1 up
    while ! ip -6 addr show dev v0 | grep -q 'fe80.*link' || ip -6 addr | grep -q tentative; do sleep 0.1; done
    ";

/// Two hosts on one cable have no default route.
#[test]
fn a_ticket_names_what_reaches_a_host_without_a_default_route() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, content(1000)).unwrap();
    let script = LINK.to_owned()
        + "link=$(ip -6 -brief addr show dev v0 | grep -o 'fe80[^/]*')
        transfer() {
            rm -f \"$3/.ticket\"
            \"$1\" recv --force --dir \"$3\" --ticket-file \"$3/.ticket\" $4 & r=$!
            while [ ! -s \"$3/.ticket\" ]; do sleep 0.1; done
            cat \"$3/.ticket\"
            \"$1\" send --ticket-file \"$3/.ticket\" \"$2\" && wait $r
        }
        transfer \"$@\" && transfer \"$@\" \"--bind [$link%v0]:0\"";
    let Some(output) = in_own_network(&script, &[&file, to.path()]) else { return };
    assert!(output.status.success(), "{}", said(&output));
    let lines = String::from_utf8_lossy(&output.stdout);
    let tickets: Vec<Ticket> = lines.lines().map(|line| line.parse().expect("a ticket")).collect();
    let [any, bound] = &tickets[..] else { panic!("{lines}") };
    assert_eq!(any.host(), "192.168.50.2");
    assert!(any.others().iter().any(|ip| ip.to_string() == bound.host()), "{any:?}");
    // The interface's name means nothing on the other host.
    assert!(bound.host().starts_with("fe80::") && !bound.host().contains('%') && bound.others().is_empty());
    assert!(!said(&output).contains("only this machine"), "{}", said(&output));
    assert!(fs::read(to.path().join("file")).unwrap() == fs::read(&file).unwrap());
}

#[test]
fn a_ticket_that_helps_nobody_else_is_reported() {
    let script = "\"$1\" recv --dir \"$2\" --ticket-file \"$2/.ticket\" & r=$!
        while [ ! -s \"$2/.ticket\" ]; do sleep 0.1; done
        cat \"$2/.ticket\"; kill -INT $r; wait $r; true";
    let to = tempfile::tempdir().unwrap();
    let Some(output) = in_own_network(script, &[to.path()]) else { return };
    assert!(output.stdout.starts_with(b"rc3://127.0.0.1:"), "{output:?}");
    assert!(said(&output).starts_with("only this machine can use the ticket"), "{}", said(&output));
}

#[test]
fn a_dead_address_of_a_ticket_does_not_end_a_transfer() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, content(1000)).unwrap();
    let script = LINK.to_owned()
        + "\"$1\" recv --quiet --dir \"$3\" --ticket-file \"$3/.ticket\" & r=$!
        while [ ! -s \"$3/.ticket\" ]; do sleep 0.1; done
        dead=$(sed s/192.168.50.2/192.168.50.9/ \"$3/.ticket\")
        \"$1\" send \"$2\" \"$dead\" && wait $r && ! \"$1\" send --quiet \"$2\" \"$dead\"";
    let Some(output) = in_own_network(&script, &[&file, to.path()]) else { return };
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::read(to.path().join("file")).unwrap() == fs::read(&file).unwrap());
    // Without a receiver every address is named.
    let failed =
        said(&output).lines().find(|line| line.starts_with("rc3: cannot connect to ")).map(str::to_owned);
    let failed = failed.unwrap_or_else(|| panic!("{}", said(&output)));
    assert!(failed.contains("192.168.50.9:") && failed.contains("[fe80::"), "{failed}");
    assert!(failed.contains("; nor to "), "{failed}");
}
