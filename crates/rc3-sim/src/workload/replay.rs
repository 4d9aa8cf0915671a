//! Known flows: written down, or read from a CSV file and replayed.

use std::time::Duration;

use serde::Deserialize;

use super::PACKET;
use crate::{
    agent::{Flow, FlowId, HostId, Writes},
    scenario::parse_time,
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
struct ReplayedFlow {
    time_s: String,
    source: u32,
    destination: u32,
    packets: Option<u64>,
    bytes: Option<u64>,
}

const COLUMNS: [&str; 3] = ["time_s", "source", "destination"];

/// The flows of a CSV ordered by time, with the columns `time_s`, `source`, `destination` (hosts, from 0) and either `packets`
/// or `bytes`; `file` is its name in errors.
///
/// # Errors
/// If a column is missing; if a row cannot be read, is earlier than the one before, names a host that `topology` lacks, has no
/// bytes, or its hosts are at the same router.
pub fn replay(text: &str, file: &str, topology: &Topology) -> Result<Vec<Listed>, TableError> {
    let rows: Vec<(u64, ReplayedFlow)> = table::rows(text, file, &COLUMNS)?;
    let mut flows: Vec<Listed> = Vec::with_capacity(rows.len());
    for (line, row) in rows {
        let flow = listed(&row, topology).and_then(|flow| match flows.last() {
            Some(before) if before.at > flow.at => {
                Err("column `time_s`: earlier than the row before, sort the file by time".to_owned())
            }
            _ => Ok(flow),
        });
        flows.push(flow.map_err(|message| TableError { file: file.to_owned(), line, message })?);
    }
    Ok(flows)
}

fn listed(row: &ReplayedFlow, topology: &Topology) -> Result<Listed, String> {
    let at =
        parse_time(&format!("{}s", row.time_s)).map_err(|source| format!("column `time_s`: {source}"))?;
    for (column, host) in [("source", row.source), ("destination", row.destination)] {
        if host as usize >= topology.hosts.len() {
            let hosts = topology.hosts.len();
            return Err(format!("column `{column}`: there is no host {host}, only {hosts} of them"));
        }
    }
    let (from, to) = (HostId(row.source), HostId(row.destination));
    check_ends(topology, from, to)?;
    let bytes = match (row.packets, row.bytes) {
        (Some(packets), None) => packets.saturating_mul(PACKET),
        (None, Some(bytes)) => bytes,
        (Some(_), Some(_)) => return Err("both `packets` and `bytes` are given, leave one out".to_owned()),
        (None, None) => return Err("the size is missing, add a column `packets` or `bytes`".to_owned()),
    };
    if !(1..u64::MAX).contains(&bytes) {
        return Err(format!("a flow of {bytes} bytes"));
    }
    Ok(Listed { at, from, to, bytes })
}

/// Refuses a flow that would measure nothing: of a host to itself, or between hosts at one router, which crosses no core link.
pub(crate) fn check_ends(topology: &Topology, from: HostId, to: HostId) -> Result<(), String> {
    let router = topology.router_of(from);
    let (HostId(sender), HostId(receiver)) = (from, to);
    if from == to {
        return Err(format!("host {sender} sends to itself"));
    }
    if router == topology.router_of(to) && !topology.cores.is_empty() {
        return Err(format!(
            "hosts {sender} and {receiver} are both at router {router}, so the flow crosses no core link"
        ));
    }
    Ok(())
}

/// Flows ordered by time, numbered.
pub(super) fn flows(listed: Vec<Listed>, writes: Writes) -> impl Iterator<Item = Flow> {
    (0..).zip(listed).map(move |(id, Listed { at, from, to, bytes })| Flow {
        id: FlowId(id),
        at,
        writes,
        ..Flow::new(from, to, bytes)
    })
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Rate;

    use super::*;
    use crate::topology::{Access, dumbbell};

    fn read_file(text: &str) -> Result<Vec<Listed>, String> {
        let rate = Rate::from_bits_per_second(1_000_000).unwrap();
        let topology = dumbbell(rate, Duration::ZERO, 2, Access::uplink(rate));
        replay(text, "flows.csv", &topology).map_err(|error| error.to_string())
    }

    fn read(rows: &str) -> Result<Vec<Listed>, String> {
        read_file(&format!("time_s,source,destination,packets\n{rows}"))
    }

    #[test]
    fn rows_are_replayed_to_the_nanosecond() {
        let flows = read("0.000000001,0,2,2107\n0.5,3,0,3\n0.5,0,3,1\n").unwrap();
        let found: Vec<_> = flows.iter().map(|f| (f.at.as_nanos(), f.from.0, f.to.0, f.bytes)).collect();
        assert_eq!(found, [(1, 0, 2, 2107 * 1460), (500_000_000, 3, 0, 3 * 1460), (500_000_000, 0, 3, 1460)]);
    }

    #[test]
    fn times_may_be_written_as_programs_print_them() {
        let flows = read("8.1e-05,0,2,1\n0.30000000000000004,0,2,1\n1e1,0,2,1\n").unwrap();
        let times: Vec<u128> = flows.iter().map(|flow| flow.at.as_nanos()).collect();
        assert_eq!(times, [81_000, 300_000_000, 10_000_000_000]);
    }

    #[test]
    fn sizes_may_be_bytes() {
        let flows = read_file("bytes,time_s,source,destination\n1,0,0,2\n14601,0,0,2\n").unwrap();
        assert_eq!(flows.iter().map(|flow| flow.bytes).collect::<Vec<_>>(), [1, 14_601]);
        let error = |text| read_file(text).unwrap_err();
        assert_eq!(
            error("time_s,source,destination\n0,0,2\n"),
            "flows.csv:2: the size is missing, add a column `packets` or `bytes`"
        );
        assert_eq!(
            error("time_s,source,destination,packets,bytes\n0,0,2,1,1\n"),
            "flows.csv:2: both `packets` and `bytes` are given, leave one out"
        );
    }

    #[test]
    fn mistakes_are_found_with_their_line() {
        let error = |rows| read(rows).unwrap_err();
        assert_eq!(
            error("0,0,2,1\n1,4,0,1\n"),
            "flows.csv:3: column `source`: there is no host 4, only 4 of them"
        );
        assert_eq!(error("0,1,1,1\n"), "flows.csv:2: host 1 sends to itself");
        assert_eq!(error("0,0,2,0\n"), "flows.csv:2: a flow of 0 bytes");
        assert_eq!(
            error("1,0,2,1\n0.5,0,2,1\n"),
            "flows.csv:3: column `time_s`: earlier than the row before, sort the file by time"
        );
        assert_eq!(
            error("0,0,1,1\n"),
            "flows.csv:2: hosts 0 and 1 are both at router 0, so the flow crosses no core link"
        );
        assert!(error("now,0,2,1\n").starts_with("flows.csv:2: column `time_s`: "));
        assert!(error("-1,0,2,1\n").starts_with("flows.csv:2: column `time_s`: "));
        assert!(error("0,x,2,1\n").starts_with("flows.csv:2: column `source`: "));
        assert_eq!(
            read_file("time,from,to,packets\n0,0,2,1\n").unwrap_err(),
            "flows.csv:1: there is no column `time_s`, `source`, `destination`"
        );
    }
}
