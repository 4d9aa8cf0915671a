//! Known flows: written down, or read from a CSV file and replayed.

use std::time::Duration;

use rc3_text::units::parse_time;
use serde::Deserialize;

use super::PACKET;
use crate::{
    agent::{Flow, FlowId, HostId, SchemeId, Writes},
    table::{self, TableError},
    topology::Topology,
};

/// A flow that is known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// When it connects.
    pub at: Duration,
    /// The sender.
    pub from: HostId,
    /// The receiver.
    pub to: HostId,
    /// Its length.
    pub bytes: u64,
}

#[derive(Deserialize)]
struct Row {
    time_s: String,
    source: u32,
    destination: u32,
    packets: u64,
}

/// The flows of a CSV with the columns `time_s`, `source`, `destination` (hosts, from 0) and `packets`, ordered by
/// time; `file` is its name in errors.
///
/// # Errors
/// If a row cannot be read, names a host that `topology` lacks, has no packets, or its receiver is its sender.
pub fn replay(text: &str, file: &str, topology: &Topology) -> Result<Vec<Listed>, TableError> {
    let rows: Vec<(u64, Row)> = table::rows(text, file)?;
    let mut flows = Vec::with_capacity(rows.len());
    for (line, row) in rows {
        let error = |message: String| TableError { file: file.to_owned(), line, message };
        let at = parse_time(&format!("{}s", row.time_s))
            .map_err(|source| error(format!("column `time_s`: {source}")))?;
        for (column, host) in [("source", row.source), ("destination", row.destination)] {
            if host as usize >= topology.hosts.len() {
                let hosts = topology.hosts.len();
                return Err(error(format!(
                    "column `{column}`: there is no host {host}, only {hosts} of them"
                )));
            }
        }
        if row.source == row.destination {
            return Err(error(format!("host {} sends to itself", row.source)));
        }
        let bytes = row.packets.checked_mul(PACKET).filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| error(format!("a flow of {} packets", row.packets)))?;
        flows.push(Listed { at, from: HostId(row.source), to: HostId(row.destination), bytes });
    }
    flows.sort_by_key(|flow| flow.at);
    Ok(flows)
}

/// Flows ordered by time, numbered.
pub(super) fn flows(listed: Vec<Listed>, writes: Writes) -> impl Iterator<Item = Flow> {
    (0..).zip(listed).map(move |(id, Listed { at, from, to, bytes })| Flow {
        id: FlowId(id),
        at,
        from,
        to,
        bytes,
        scheme: SchemeId(0),
        writes,
    })
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Rate;

    use super::*;
    use crate::topology::{Access, dumbbell};

    fn read(rows: &str) -> Result<Vec<Listed>, String> {
        let rate = Rate::from_bits_per_second(1_000_000).unwrap();
        let topology = dumbbell(rate, Duration::ZERO, 1, Access::uplink(rate));
        let text = format!("time_s,source,destination,packets\n{rows}");
        replay(&text, "flows.csv", &topology).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_replayed_in_order_of_time_to_the_nanosecond() {
        let flows = read("0.5,1,0,3\n0.000000001,0,1,2107\n0.5,0,1,1\n").unwrap();
        let found: Vec<_> = flows.iter().map(|f| (f.at.as_nanos(), f.from.0, f.to.0, f.bytes)).collect();
        assert_eq!(found, [(1, 0, 1, 2107 * 1460), (500_000_000, 1, 0, 3 * 1460), (500_000_000, 0, 1, 1460)]);
    }

    #[test]
    fn mistakes_are_found_with_their_line() {
        let error = |rows| read(rows).unwrap_err();
        assert_eq!(
            error("0,0,1,1\n1,2,0,1\n"),
            "flows.csv:3: column `source`: there is no host 2, only 2 of them"
        );
        assert_eq!(error("0,1,1,1\n"), "flows.csv:2: host 1 sends to itself");
        assert_eq!(error("0,0,1,0\n"), "flows.csv:2: a flow of 0 packets");
        assert!(error("now,0,1,1\n").starts_with("flows.csv:2: column `time_s`: "));
        assert!(error("-1,0,1,1\n").starts_with("flows.csv:2: column `time_s`: "));
        assert!(error("0,x,1,1\n").starts_with("flows.csv:2: column `source`: "));
    }
}
