//! The same flows in the simulator: as far as it knows the schemes and the path.

use rc3_sim::{scenario::Scenario, simulation::Simulation};
use rc3_text::units::{rate_text, time_text};

use super::{
    cell::{Cell, Company},
    path::{Card, Discipline},
    results::{Results, Which},
    sample::FlowSample,
};
use crate::{document::Table, statistics::Estimate};

/// A fast card is so many times as fast as the bottleneck.
const FAST: u64 = 100;

/// Completion times from the open connection, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The scheme on sockets.
    pub scheme: String,
    /// Bytes of the application.
    pub bytes: u64,
    /// On sockets.
    pub measured: Estimate,
    /// In the simulator.
    pub simulated: f64,
}

/// Simulates the flows of a cell that were measured.
pub fn simulate(results: &Results, cell: &Cell) -> Vec<Simulated> {
    let mut rows = Vec::new();
    for scheme in &results.schemes {
        let Some(simulated) = counterpart(scheme) else { continue };
        for &bytes in &cell.sizes {
            let fct = |sample: &FlowSample| Some(sample.fct_s);
            let Some(measured) = results.estimate(cell, scheme, bytes, Which::First, fct) else { continue };
            let rtt = cell.path.rtt.as_secs_f64();
            let Some(simulated) = simulated_fct(cell, simulated, bytes) else { continue };
            // The simulator counts from connect, one round trip earlier.
            rows.push(Simulated { scheme: scheme.clone(), bytes, measured, simulated: simulated - rtt });
        }
    }
    rows
}

/// Whether the simulator has the path of a cell and nobody else is on it.
pub fn is_possible(cell: &Cell) -> bool {
    let path = &cell.path;
    cell.company == Company::Nobody && cell.connections == 1 && path.trace.is_none() && path.loss.share <= 0.0
}

/// The scheme of the simulator that does the same.
fn counterpart(scheme: &str) -> Option<&'static str> {
    match scheme {
        "rc3" => Some("guard"),
        "rc3-trust" => Some("trust"),
        "rc3-off" | "quinn" => Some("plain"),
        "quinn-iw32" => Some("iw32"),
        _ => None,
    }
}

/// Completion time of a flow over the path of a cell, in seconds; `None` if it never ends.
fn simulated_fct(cell: &Cell, scheme: &str, bytes: u64) -> Option<f64> {
    let path = &cell.path;
    let card = if path.card == Card::AsLink { 1 } else { FAST };
    let (rate, rtt) = (rate_text(path.rate.bits_per_second()), time_text(path.rtt));
    let queue = match path.discipline {
        Discipline::DropTail => "drop-tail",
        Discipline::DropFront => "drop-front",
        Discipline::Codel => "codel",
        Discipline::FqCodel => "fq-codel",
        Discipline::Cake => "cake",
        Discipline::Policer => "policer",
        Discipline::Priority => "priority",
    };
    let text = format!(
        "base = 'today'\nname = 'net'\ntopology.card = {card}\nqueue.discipline = '{queue}'\n\
         run = [{{ name = 'net', scheme = '{scheme}' }}]\n[sweep]\ntopology.rate = ['{rate}']\n\
         topology.rtt = ['{rtt}']\nqueue.buffer = ['{}bdp']\nworkload.size = [{bytes}]\n",
        path.buffer
    );
    let runs = Scenario::parse(&text, "net").and_then(|scenario| scenario.expand()).ok()?;
    let (record, _) = Simulation::run(runs.first()?).ok()?;
    Some(record?.fct?.as_secs_f64())
}

/// Measured beside simulated.
pub fn table(rows: &[Simulated]) -> Table {
    let mut table = Table::new(&[
        "scheme",
        "#size",
        "#measured, ms",
        "#interval",
        "#simulated, ms",
        "#measured / simulated",
    ]);
    for Simulated { scheme, bytes, measured, simulated } in rows {
        table.rows.push(vec![
            scheme.clone(),
            rc3_text::units::about_bytes(*bytes),
            format!("{:.1}", measured.median * 1e3),
            format!("{:.1} to {:.1}", measured.low * 1e3, measured.high * 1e3),
            format!("{:.1}", simulated * 1e3),
            format!("{:.2}", measured.median / simulated),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::results::tests::{cell, flow};

    #[test]
    fn a_flow_alone_takes_as_long_as_it_can_be_calculated() {
        let cell = Cell { sizes: vec![10_000], ..cell("idle", Company::Nobody, 1) };
        assert!(is_possible(&cell));
        let flows = vec![flow(&cell, "rc3-off", 10_000, 1, 1.0), flow(&cell, "tcp", 10_000, 1, 1.0)];
        let schemes = vec!["rc3-off".to_owned(), "tcp".to_owned()];
        let rows = simulate(&Results { schemes, flows, ..Results::default() }, &cell);
        // Half a round trip, and seven packets, which fit into the first flight.
        assert_eq!(rows.len(), 1, "the simulator has no kernel TCP");
        let ideal = cell.path.ideal(10_000).as_secs_f64();
        assert!((rows[0].simulated / ideal - 1.0).abs() < 0.1, "{rows:?}");
        assert!((rows[0].measured.median / ideal - 1.0).abs() < 0.01, "{rows:?}");
    }
}
