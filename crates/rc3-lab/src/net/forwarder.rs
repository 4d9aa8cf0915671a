//! The capacity of `kickass forward`: a long flow of kernel TCP through links with 20 ms of delay and 8 strict levels.

use std::net::SocketAddr;

use super::{
    error::NetError,
    forward::{ForwardedPort, Forwarder, address},
    namespace::Namespace,
    path::CONTENT,
    run::Lab,
    scheme::{HostPair, PORT, Scheme},
    streams, tables,
    transport::{Timed, Transport},
};
use crate::document::{Document, Table};

/// Rates in Gbit/s, and signals: none, one per millisecond, or one in each packet.
const LOADS: [(u64, &str, &str); 7] = [
    (1, "none", NONE),
    (1, "one per ms", SAMPLED),
    (1, "in each packet", EACH),
    (5, "none", NONE),
    (5, "one per ms", SAMPLED),
    (10, "none", NONE),
    (10, "one per ms", SAMPLED),
];
const NONE: &str = "kickass = { on = false }";
const SAMPLED: &str = "kickass = { fixed = \"100mbit\", sampling = { interval = \"1ms\" } }";
const EACH: &str = "kickass = { fixed = \"100mbit\" }";
const KEYS: &str = "buffer = \"50M\"\n\
    queue = { kind = \"strict-priority\", levels = { 8 = 1, 16 = 2, 24 = 3, 32 = 4, 40 = 5, 48 = 6, 56 = 7 } }\n";
/// Windows of TCP do not limit it.
const WINDOWS: [&str; 2] =
    ["net.ipv4.tcp_rmem=4096 131072 200000000", "net.ipv4.tcp_wmem=4096 131072 200000000"];

/// Lets all loads take their turns.
pub fn measure(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let (sender, receiver) = (Namespace::new("sender")?, Namespace::new("receiver")?);
    // Leaves Don't Fragment clear.
    sender.sysctl(&["net.ipv4.ip_no_pmtu_disc=1"])?;
    sender.sysctl(&WINDOWS)?;
    receiver.sysctl(&WINDOWS)?;
    let time = lab.options.time(5, 1);
    let names: Vec<String> =
        LOADS.iter().map(|(gigabits, signals, _)| format!("{gigabits} Gbit/s, signals: {signals}")).collect();
    let bytes = |gigabits: u64| (gigabits as f64 * 1e9 / 8.0 * time.as_secs_f64()) as u64;
    let measured = lab.turns(&names, |nth| {
        let (gigabits, _, signals) = LOADS[nth];
        run(&sender, &receiver, gigabits, signals, bytes(gigabits))
    });
    let text = "CPU time is user and system time of the forwarder, with the kernel's work within its writes.";
    let mut table =
        Table::new(["link", "#goodput, Gbit/s", "#us of CPU per packet of 1500 bytes", "#% of a core"]);
    for ((name, runs), (gigabits, ..)) in names.iter().zip(&measured).zip(LOADS) {
        table.row(name, cells(runs, bytes(gigabits)));
    }
    Ok(vec![Document::new("Capacity of kickass forward").text(text).table(table)])
}

/// The flow, and CPU seconds of the forwarder.
fn run(
    sender: &Namespace,
    receiver: &Namespace,
    gigabits: u64,
    signals: &str,
    bytes: u64,
) -> Result<(Timed, f64), NetError> {
    let (rate, keys) = (format!("{gigabits}gbit"), format!("{KEYS}{signals}"));
    let back = ForwardedPort::new("kick-a", sender, 1, &[1], "20gbit", "1us", "");
    let there = ForwardedPort::new("kick-b", receiver, 2, &[2], &rate, "20ms", &keys);
    let forwarder = Forwarder::start(&[back, there])?;
    let place = HostPair { sender, receiver, address: SocketAddr::from((address(2), PORT)), mtu: None };
    let tcp = Scheme::own(Transport::Tcp)?;
    let before = forwarder.process.usage()?.cpu;
    let timed = streams::send(&place, &tcp, bytes)?;
    Ok((timed, (forwarder.process.usage()?.cpu - before).as_secs_f64()))
}

fn cells(runs: &[(Timed, f64)], bytes: u64) -> [String; 3] {
    let of = |value: &dyn Fn(&(Timed, f64)) -> f64| tables::estimated(runs.iter().map(value));
    let packets = bytes as f64 / CONTENT as f64;
    [
        of(&|(timed, _)| bytes as f64 * 8e-9 / timed.flow),
        of(&|(_, cpu)| cpu * 1e6 / packets),
        of(&|(timed, cpu)| 100.0 * cpu / timed.flow),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_goodput_and_cost() {
        let timed = Timed { connect: 0.1, flow: 0.5, ..Timed::default() };
        let bytes = CONTENT * 100_000;
        assert_eq!(cells(&[(timed, 0.1)], bytes), ["2.32", "1.00", "20.0"]);
    }
}
