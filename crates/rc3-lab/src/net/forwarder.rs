//! The capacity of `kickass forward`: packets of 1500 bytes through links of 20 Gbit/s with 20 ms of delay and 8 strict
//! levels, so that only the forwarder limits the rate.

use std::{net::SocketAddr, time::Duration};

use rc3_core::units::Rate;
use rc3_text::units::{rate_text, time_text};

use super::{
    act::Received,
    error::NetError,
    experiment::Options,
    forward::{Forwarder, Port, address},
    namespace::Namespace,
    others,
    report::Section,
    run::Lab,
    tables,
};
use crate::{document::Table, statistics::Estimate};

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
const PORT: u16 = 14_433;
/// For processes to start and to end.
const AROUND: Duration = Duration::from_secs(3);

/// One run.
#[derive(Debug, Clone, Copy)]
struct Run {
    received: Received,
    /// CPU seconds of the forwarder.
    cpu: f64,
}

fn time(options: &Options) -> Duration {
    options.pick(options.args.time, Duration::from_secs(5), Duration::from_secs(1))
}

/// About how long it takes.
pub fn estimate(options: &Options) -> Duration {
    (time(options) + AROUND) * LOADS.len() as u32 * options.runs()
}

/// Lets all loads take their turns.
///
/// # Errors
/// If a process fails.
pub fn measure(lab: &mut Lab) -> Result<Vec<Section>, NetError> {
    let (sender, receiver) = (Namespace::new("sender")?, Namespace::new("receiver")?);
    // Leaves Don't Fragment clear.
    sender.sysctl("net.ipv4.ip_no_pmtu_disc=1")?;
    let time = time(&lab.options);
    let names: Vec<String> =
        LOADS.iter().map(|(gigabits, signals, _)| format!("{gigabits} Gbit/s, signals: {signals}")).collect();
    let measured = lab.turns(&names, time + AROUND, |nth| {
        let (gigabits, _, signals) = LOADS[nth];
        run(&sender, &receiver, gigabits, signals, time)
    })?;
    let text = "Packets of 1500 bytes, 43 in each call of the sender, links of 20 Gbit/s, 20 ms of delay, 8 strict levels. \
                CPU time is user and system time of the forwarder, with the kernel's work within its writes.";
    Ok(vec![Section::new("Capacity of kickass forward").text(text).table(table(&names, &measured, time))])
}

fn run(
    sender: &Namespace,
    receiver: &Namespace,
    gigabits: u64,
    signals: &str,
    time: Duration,
) -> Result<Run, NetError> {
    let keys = format!("{KEYS}{signals}");
    let port = |name, host, network, routes, reaches, keys| Port {
        name,
        host,
        network,
        routes,
        reaches,
        rate: "20gbit",
        delay: if network == 2 { "20ms" } else { "0ms" },
        keys,
    };
    let forwarder = Forwarder::start(&[
        port("kick-a", sender, 1, &[1], &[2], ""),
        port("kick-b", receiver, 2, &[2], &[1], &keys),
    ])?;
    let address = SocketAddr::from((address(2), PORT)).to_string();
    let count = others::start(receiver, "count", &["count", &address])?;
    count.line()?;
    let before = forwarder.process.usage()?;
    let rate = Rate::from_bits_per_second(gigabits * 1_000_000_000).map_or(0, Rate::bits_per_second);
    let words = ["datagrams", &address, &rate_text(rate), &time_text(time)];
    let datagrams = others::start(sender, "datagrams", &words)?;
    let line = count.line_in(time + Duration::from_secs(30))?;
    let cpu = (forwarder.process.usage()?.cpu - before.cpu).as_secs_f64();
    drop(datagrams);
    Ok(Run { received: serde_json::from_str(&line).map_err(std::io::Error::from)?, cpu })
}

fn table(names: &[String], measured: &[Vec<Run>], time: Duration) -> Table {
    let mut table = Table::new(&[
        "load",
        "#us of CPU per packet",
        "#% of a core",
        "#lost, %",
        "#packets/s",
        "#delay, ms: median",
        "#99 %",
        "#longest",
    ]);
    for (name, runs) in names.iter().zip(measured) {
        let of = |value: &dyn Fn(&Run) -> f64| {
            tables::optional(Estimate::of(&runs.iter().map(value).collect::<Vec<_>>()))
        };
        let lost = |run: &Run| run.received.sent.saturating_sub(run.received.received) as f64;
        table.rows.push(vec![
            name.clone(),
            of(&|run| run.cpu * 1e6 / run.received.received as f64),
            of(&|run| 100.0 * run.cpu / time.as_secs_f64()),
            of(&|run| 100.0 * lost(run) / run.received.sent.max(1) as f64),
            of(&|run| run.received.received as f64 / run.received.seconds.max(1e-9)),
            of(&|run| run.received.delays[0] * 1e3),
            of(&|run| run.received.delays[1] * 1e3),
            of(&|run| run.received.delays[2] * 1e3),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_cost_loss_and_delay() {
        let received = Received { sent: 1000, received: 900, seconds: 0.9, delays: [0.02, 0.03, 0.04] };
        let rows =
            table(&["load".to_owned()], &[vec![Run { received, cpu: 0.0009 }]], Duration::from_secs(1)).rows;
        assert_eq!(rows[0], ["load", "1.00", "0.09", "10.0", "1000.0", "20.0", "30.0", "40.0"]);
    }
}
