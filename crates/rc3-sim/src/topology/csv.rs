//! Core links from a CSV file: `a,b,one_way_delay_ms,rate_mbps`.

use std::time::Duration;

use rc3_core::units::Rate;
use rc3_text::units::parse_rate;
use serde::Deserialize;

use super::{Access, Core, Nominal, Router, Routing, Topology, routers};
use crate::{
    scenario::parse_time,
    table::{self, TableError},
};

#[derive(Deserialize)]
struct CsvLink {
    a: String,
    b: String,
    one_way_delay_ms: String,
    rate_mbps: String,
}

/// The topology whose core links are the rows of `text`, a CSV with the columns `a`, `b`, `one_way_delay_ms` and
/// `rate_mbps`; `file` is its name in errors. Routers are numbered in the order of their first appearance,
/// and each of them has `hosts` hosts. Load is relative to `rate` for each host.
///
/// # Errors
/// If a row cannot be read, joins a router to itself or two that another row joins, or belongs to a part of the
/// network that cannot reach the first router.
pub fn from_csv(
    text: &str,
    file: &str,
    hosts: u32,
    access: Access,
    rate: Rate,
) -> Result<Topology, TableError> {
    let rows: Vec<(u64, CsvLink)> = table::rows(text, file, &["a", "b", "one_way_delay_ms", "rate_mbps"])?;
    let mut names = Names::default();
    let mut cores = Vec::with_capacity(rows.len());
    for (line, row) in &rows {
        let error = |message| TableError { file: file.to_owned(), line: *line, message };
        let delay = parse_time(&format!("{}ms", row.one_way_delay_ms))
            .map_err(|source| error(format!("column `one_way_delay_ms`: {source}")))?;
        let rate = parse_rate(&format!("{}mbit", row.rate_mbps))
            .map_err(|source| error(format!("column `rate_mbps`: {source}")))?
            .into();
        let (a, b) = (names.number(&row.a), names.number(&row.b));
        if a == b {
            return Err(error(format!("a link from `{}` to itself", row.a)));
        }
        let is_known = |core: &Core| (core.a, core.b) == (a, b) || (core.a, core.b) == (b, a);
        if cores.iter().any(is_known) {
            return Err(error(format!("there is another link between `{}` and `{}`", row.a, row.b)));
        }
        cores.push(Core { a, b, rate, delay });
    }
    let routers = names.routers();
    let capacity = capacity(rate, routers.len(), hosts);
    let nominal = Nominal { rate, rtt: Duration::ZERO, capacity };
    let mut topology =
        Topology { routers, hosts: Vec::new(), cores, routing: Routing::LowestNeighbour, nominal };
    topology.attach(0..topology.routers.len(), hosts, access);
    let routes = topology.routes();
    for ((line, row), core) in rows.iter().zip(&topology.cores) {
        if routes.distance(0, core.a).is_none() {
            let message = format!("`{}` cannot reach `{}`", row.a, topology.routers[0].name);
            return Err(TableError { file: file.to_owned(), line: *line, message });
        }
    }
    topology.nominal.rtt = topology.mean_rtt();
    Ok(topology)
}

/// Traffic of `hosts` hosts at each of `routers` routers, all of which send at `rate`.
pub(super) fn capacity(rate: Rate, routers: usize, hosts: u32) -> Rate {
    let hosts = (routers as u64).saturating_mul(u64::from(hosts)).max(1);
    Rate::from_bits_per_second(rate.bits_per_second().saturating_mul(hosts)).unwrap_or(rate)
}

/// Names in the order in which they are first seen.
#[derive(Default)]
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn number(&mut self, name: &str) -> usize {
        self.0.iter().position(|known| known == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }

    pub(super) fn routers(self) -> Vec<Router> {
        routers(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "a,b,one_way_delay_ms,rate_mbps\n";

    fn read(rows: &str) -> Result<Topology, String> {
        let rate = Rate::from_bits_per_second(1_000_000_000).unwrap();
        from_csv(&format!("{HEADER}{rows}"), "net.csv", 2, Access::uplink(rate), rate)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn links_are_read_as_written() {
        let topology = read("Bern,Zug,1.5,100\nZug,Chur,0.000001,2.5\n").unwrap();
        let names: Vec<&str> = topology.routers.iter().map(|router| router.name.as_str()).collect();
        assert_eq!(names, ["Bern", "Zug", "Chur"]);
        assert_eq!(topology.hosts.len(), 6);
        let core = topology.cores[1];
        assert_eq!((core.a, core.b, core.delay), (1, 2, Duration::from_nanos(1)));
        assert_eq!(core.rate.bits_per_second(), 2_500_000);
        assert_eq!(topology.nominal.capacity.bits_per_second(), 6_000_000_000);
        // 3, 0.000002 and 3.000002 ms.
        assert_eq!(topology.nominal.rtt, Duration::from_nanos(2_000_001));
    }

    #[test]
    fn mistakes_are_found_with_their_line() {
        let error = |rows| read(rows).unwrap_err();
        assert_eq!(error("A,B,1,100\nB,B,1,100\n"), "net.csv:3: a link from `B` to itself");
        let twice = "net.csv:3: there is another link between `B` and `A`";
        assert_eq!(error("A,B,1,100\nB,A,1,100\n"), twice);
        assert_eq!(error("A,B,1,100\nC,D,1,100\n"), "net.csv:3: `C` cannot reach `A`");
        assert!(error("A,B,1,0\n").starts_with("net.csv:2: column `rate_mbps`: a rate of zero"));
        assert!(error("A,B,soon,1\n").starts_with("net.csv:2: column `one_way_delay_ms`: `soonms` does not"));
        assert_eq!(error("A,B,1\n"), "net.csv:2: 3 fields where the header has 4");
    }
}
