//! The same flows in the simulator: as far as it knows the schemes and the path.

use rc3_sim::{scenario::Scenario, simulation::Simulation};
use rc3_text::units::{rate_text, time_text};

use super::{
    cell::Cell, charts::SIMULATED, path::Card, results::Results, sample::MeasuredFlow, transport::Timed,
};

/// A fast card is so many times as fast as the bottleneck.
const FAST: u64 = 100;

/// The flows of a cell that were measured, and the same simulated as schemes of their own. Nobody else is in the cell, and its
/// path has neither a trace nor losses.
pub fn beside(results: &Results, cell: &Cell) -> Results {
    let mut both = Results { flows: results.flows.clone(), ..Results::default() };
    for scheme in &results.schemes {
        // The scheme of the simulator that does the same.
        let counterpart = match scheme.as_str() {
            "rc3" => "guard",
            "rc3-trust" => "trust",
            "rc3-off" | "quinn" => "plain",
            "quinn-iw32" => "iw32",
            _ => continue,
        };
        let name = format!("{scheme}{SIMULATED}");
        for &bytes in &cell.sizes {
            let Some(fct) = simulated_fct(cell, counterpart, bytes) else { continue };
            // The simulator counts from connect, one round trip earlier.
            let timed = Timed { flow: fct - cell.path.rtt.as_secs_f64(), ..Timed::default() };
            let ideal_s = cell.path.ideal(bytes).as_secs_f64();
            let flow = MeasuredFlow::new("", &cell.name, &name, bytes, &timed);
            both.flows.push(MeasuredFlow { ideal_s, run: 1, connection: 1, ..flow });
        }
        both.schemes.extend([scheme.clone(), name]);
    }
    both
}

/// Completion time of a flow over the path of a cell, in seconds; `None` if it never ends.
fn simulated_fct(cell: &Cell, scheme: &str, bytes: u64) -> Option<f64> {
    let path = &cell.path;
    let card = if path.card == Card::AsLink { 1 } else { FAST };
    let text = format!(
        "base = 'today'\nname = 'net'\ntopology.card = {card}\nqueue.discipline = '{}'\n\
         run = [{{ name = 'net', scheme = '{scheme}' }}]\n[sweep]\ntopology.rate = ['{}']\n\
         topology.rtt = ['{}']\nqueue.buffer = ['{}bdp']\nworkload.size = [{bytes}]\n",
        path.discipline,
        rate_text(path.rate.get()),
        time_text(path.rtt),
        path.buffer
    );
    let runs = Scenario::parse(&text, "net").and_then(|scenario| scenario.expand()).ok()?;
    let (record, _) = Simulation::run(runs.first()?).ok()?;
    Some(record?.fct?.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{
        cell::Company,
        results::tests::{cell, flow},
    };

    #[test]
    fn a_flow_alone_takes_as_long_as_it_can_be_calculated() {
        let cell = Cell { sizes: vec![10_000], ..cell("idle", Company::Nobody, 1) };
        let flows = vec![flow(&cell, "rc3-off", 10_000, 1, 1.0), flow(&cell, "tcp", 10_000, 1, 1.0)];
        let schemes = vec!["rc3-off".to_owned(), "tcp".to_owned()];
        let both = beside(&Results { schemes, flows, ..Results::default() }, &cell);
        assert_eq!(both.schemes, ["rc3-off", "rc3-off, simulated"], "the simulator has no kernel TCP");
        // Half a round trip, and seven packets, which fit into the first flight.
        let ratios = both.ratios(&cell, 10_000);
        assert!(ratios.iter().flatten().all(|ratio| (ratio.median - 1.0).abs() < 0.1), "{ratios:?}");
        assert_eq!(ratios.iter().flatten().count(), 2);
    }
}
