//! Memory of many connections and streams, and what an endpoint with idle connections costs.
//!
//! Server and client are processes of their own with one endpoint each, so one socket each. A figure is the growth of a
//! process's resident memory since its first connection, divided by the connections or streams; it includes the
//! program's own task for each connection. There is no idle timeout and no keep-alive.

use std::time::Duration;

use super::{
    error::NetError,
    interrupt,
    process::Process,
    run::Lab,
    scheme::{HostPair, Scheme, Server},
    streams::Hosts,
    transport::{Setup, Task},
};
use crate::document::{Document, Table};

/// Numbers of connections, and of a quick run.
const CONNECTIONS: [usize; 2] = [1000, 10_000];
const CONNECTIONS_QUICK: [usize; 1] = [100];
/// Idle streams on each of them.
const STREAMS: usize = 10;
/// Streams of exchanges that may count as open for a while.
const ENDED: usize = 16;
/// Streams over few connections: how many in total, and how many connections carry them.
const MANY: usize = 100_000;
const CARRIERS: usize = 100;
/// How long a step may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Server, client: bytes.
type Resident = [u64; 2];

/// Measures all and makes the tables.
pub fn measure(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let schemes = lab.schemes(&["rc3", "rc3-off", "quinn"])?;
    let typed = Some(lab.options.args.connections.clone()).filter(|typed| !typed.is_empty());
    let counts = lab.options.pick(typed, CONNECTIONS.into(), CONNECTIONS_QUICK.into());
    // Time after each step before memory is read.
    let settling = lab.options.pick(None, Duration::from_secs(3), Duration::from_millis(500));
    // How long CPU time and wake-ups of the idle server are counted.
    let idle = lab.options.pick(None, Duration::from_secs(10), Duration::from_secs(1));
    let hosts = Hosts::loopback(None);
    let mut table = Table::new([
        "#connections",
        "scheme",
        "#after the handshake",
        "#after an exchange",
        &format!("#with {STREAMS} open streams"),
        "#idle server: cores",
        "#wake-ups / s",
    ]);
    for (count, scheme) in counts.iter().flat_map(|count| schemes.iter().map(move |scheme| (*count, scheme)))
    {
        let row = lab.attempt(&format!("{count} connections, {}", scheme.name), || {
            let mut held = HeldConnections::start(&hosts.place(), scheme, STREAMS + ENDED, settling)?;
            let mut row = vec![scheme.name.clone()];
            for step in [format!("connect {count}"), "exchange".to_owned(), format!("open {STREAMS}")] {
                row.push(kilobytes(held.grown(&step)?, count));
            }
            let before = held.server.process.usage()?;
            interrupt::sleep(idle)?;
            let (cores, wake_ups) = held.server.process.usage()?.since(before);
            row.extend([format!("{cores:.4}"), format!("{wake_ups:.1}")]);
            Ok(row)
        });
        row.into_iter().for_each(|row| table.row(count.to_string(), row));
    }
    let many = lab.options.pick(None, MANY, MANY / 100);
    let mut streams = Table::new(["scheme", "#server", "#client"]);
    for scheme in &schemes {
        let row = lab.attempt(&format!("{many} streams, {}", scheme.name), || {
            let each = many / CARRIERS;
            let mut held = HeldConnections::start(&hosts.place(), scheme, each + ENDED, settling)?;
            let without = held.grown(&format!("connect {CARRIERS}"))?;
            let with = held.grown(&format!("open {each}"))?;
            Ok(minus(with, without).map(|bytes| (bytes / many as u64).to_string()))
        });
        row.into_iter().for_each(|row| streams.row(&scheme.name, row));
    }
    let text = format!("Bytes per stream, {many} open streams over {CARRIERS} connections:");
    Ok(vec![
        Document::new("Memory of connections and streams")
            .text("Kilobytes of resident memory per connection, server / client:")
            .table(table)
            .text(text)
            .table(streams),
    ])
}

/// Server and client, and their memory at first.
struct HeldConnections {
    server: Server,
    client: Process,
    settling: Duration,
    before: Resident,
}

impl HeldConnections {
    /// Starts both, with one connection that the figures do not count.
    fn start(
        place: &HostPair<'_>,
        scheme: &Scheme,
        streams: usize,
        settling: Duration,
    ) -> Result<Self, NetError> {
        let setup = Setup { streams: u32::try_from(streams).ok(), ..scheme.setup };
        let server = Scheme { setup, ..scheme.clone() }.serve(place)?;
        let client = server.client(place, Task::Hold)?;
        let mut held = Self { server, client, settling, before: [0; 2] };
        held.grown("connect 1")?;
        held.before = held.grown("exchange")?;
        Ok(held)
    }

    /// Has the client do it; returns how much memory has grown since the start.
    fn grown(&mut self, step: &str) -> Result<Resident, NetError> {
        self.client.ask(step)?;
        self.client.line_in(PATIENCE)?;
        interrupt::sleep(self.settling)?;
        Ok(minus([self.server.process.resident()?, self.client.resident()?], self.before))
    }
}

fn minus(now: Resident, before: Resident) -> Resident {
    [0, 1].map(|end| now[end].saturating_sub(before[end]))
}

fn kilobytes(resident: Resident, count: usize) -> String {
    let [server, client] = resident.map(|bytes| bytes as f64 / count.max(1) as f64 / 1e3);
    format!("{server:.1} / {client:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_divided_among_connections() {
        let grown = minus([5_000_000, 3_000_000], [1_000_000, 4_000_000]);
        assert_eq!(grown, [4_000_000, 0]);
        assert_eq!(kilobytes(grown, 100), "40.0 / 0.0");
        assert_eq!(kilobytes([1000, 2000], 0), "1.0 / 2.0");
    }
}
