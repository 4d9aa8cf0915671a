//! Tables of a report.

use std::time::Duration;

use rc3_text::units::{about_bytes, about_time};

use super::{
    cell::Cell,
    results::{FIRST, LATER, Results},
    sample::{MeasuredFlow, NOBODY, OthersSample},
};
use crate::{
    document::Table,
    statistics::{MedianInterval, Ranked, geometric_mean, ranks},
};

/// Flows of so many bytes show what a byte costs, and not what a connection costs.
const LONG: u64 = 3_000_000;

/// Completion times over the ideal, with interval and rank.
pub fn completion(results: &Results, cell: &Cell) -> Table {
    let mut table = by_size("scheme", cell);
    table.row("ideal", cell.sizes.iter().map(|bytes| about_time(cell.path.ideal(*bytes))));
    let columns: Vec<_> = cell.sizes.iter().map(|bytes| ranks(&results.ratios(cell, *bytes))).collect();
    for (nth, scheme) in results.schemes.iter().enumerate() {
        let text = |column: &Vec<Option<Ranked>>| column[nth].map_or_else(|| "-".to_owned(), ranked);
        table.row(scheme, columns.iter().map(text));
    }
    table
}

/// The estimate and its rank, with `=` if it may be as good as the first.
fn ranked(ranked: Ranked) -> String {
    let Ranked { estimate, place, as_good } = ranked;
    format!("{} #{place}{}", interval(&estimate), if as_good && place > 1 { "=" } else { "" })
}

/// Completion times over the ideal, measured and simulated.
pub fn simulated(both: &Results, cell: &Cell) -> Table {
    let mut table = by_size("scheme", cell);
    let columns: Vec<_> = cell.sizes.iter().map(|bytes| both.ratios(cell, *bytes)).collect();
    for (nth, scheme) in both.schemes.iter().enumerate() {
        table.row(scheme, columns.iter().map(|column| optional(column[nth])));
    }
    table
}

/// From connect to the last byte in milliseconds, on first and on later connections.
pub fn repeated(results: &Results, cell: &Cell) -> Table {
    let mut table = by_size("scheme, connection", cell);
    let total = |sample: &MeasuredFlow| Some((sample.connect_s + sample.fct_s) * 1e3);
    for scheme in &results.schemes {
        for (connections, name) in [(FIRST, "first"), (LATER, "later")] {
            let text =
                |bytes: &u64| optional(results.estimate(cell, scheme, *bytes, connections.clone(), total));
            table.row(format!("{scheme}, {name}"), cell.sizes.iter().map(text));
        }
    }
    table
}

/// What others felt beside each scheme, and beside nobody.
pub fn others(results: &Results, cell: &Cell) -> Table {
    let of_flows = ["#flows", "#FCT / ideal, geometric mean", "#FCT / ideal, 99 %"].map(str::to_owned);
    let around = cell.sizes.iter().map(|bytes| format!("#around {}, %", about_bytes(*bytes)));
    let around = std::iter::once("#goodput of the long flow, %".to_owned()).chain(around);
    let names = ["beside", "#ping, median, ms", "#ping, 99 %, ms"].map(str::to_owned).into_iter();
    let (has_long, has_load) = (cell.company.has_long(), cell.company.load().is_some());
    let of_long = around.filter(|_| has_long);
    let mut table = Table::new(names.chain(of_long).chain(of_flows.into_iter().filter(|_| has_load)));
    for scheme in std::iter::once(NOBODY).chain(results.schemes.iter().map(String::as_str)) {
        let of = |quantity: &dyn Fn(&OthersSample) -> Option<f64>| {
            estimated(results.others_of(cell, scheme).filter_map(quantity))
        };
        let mut row = vec![
            of(&|sample| Some(sample.ping_median_s? * 1e3)),
            of(&|sample| Some(sample.ping_p99_s? * 1e3)),
        ];
        if has_long {
            row.push(of(&|sample| Some(sample.long_share? * 100.0)));
            let share = |sample: &MeasuredFlow| Some(sample.others_share? * 100.0);
            let around = |bytes: &u64| optional(results.estimate(cell, scheme, *bytes, FIRST, share));
            row.extend(cell.sizes.iter().map(around));
        }
        if has_load {
            let flows: u64 = results.others_of(cell, scheme).map(|sample| sample.flows).sum();
            row.extend([flows.to_string(), of(&|sample| sample.slowdown), of(&|sample| sample.slowdown_p99)]);
        }
        table.row(scheme, row);
    }
    table
}

/// Which packets waited in the queue of a recipe while worse ones left.
pub fn waits(results: &Results, cell: &Cell) -> Table {
    let head = ["scheme", "#primary, packets", "#behind RLP, %", "#RLP, packets", "#behind a worse level, %"];
    let mut table = Table::new(head);
    for scheme in &results.schemes {
        let of = |count: fn(&MeasuredFlow) -> u64| {
            let flows = results.flows.iter().filter(|flow| flow.cell == cell.name && flow.scheme == *scheme);
            flows.map(count).sum::<u64>()
        };
        let share = |part: u64, of: u64| format!("{:.2}", 100.0 * part as f64 / of.max(1) as f64);
        let (primary, rlp) = (of(|flow| flow.primary_packets), of(|flow| flow.rlp_packets));
        let behind = [(of(|flow| flow.primary_behind), primary), (of(|flow| flow.rlp_behind), rlp)];
        let [primary_behind, rlp_behind] = behind.map(|(part, of)| share(part, of));
        table.row(scheme, [primary.to_string(), primary_behind, rlp.to_string(), rlp_behind]);
    }
    table
}

/// CPU time per byte of flows that are long enough; `None` where there are none.
pub fn cpu(results: &Results, cell: &Cell) -> Option<Table> {
    let bytes = cell.sizes.iter().copied().max().filter(|bytes| *bytes >= LONG)?;
    let mut table = Table::new(["scheme", "#sender, ns/byte", "#receiver, ns/byte", "#both"]);
    let ends: [fn(&MeasuredFlow) -> f64; 3] = [
        |sample| sample.sender_cpu_s,
        |sample| sample.receiver_cpu_s,
        |sample| sample.sender_cpu_s + sample.receiver_cpu_s,
    ];
    for scheme in &results.schemes {
        let of = |cpu: fn(&MeasuredFlow) -> f64| {
            let per_byte = |sample: &MeasuredFlow| Some(cpu(sample) * 1e9 / bytes as f64);
            optional(results.estimate(cell, scheme, bytes, FIRST, per_byte))
        };
        table.row(scheme, ends.map(of));
    }
    Some(table)
}

/// The rank of each scheme in each cell by the geometric mean over the sizes.
pub fn overview(results: &Results) -> Table {
    let names = results.schemes.iter().map(|scheme| format!("#{scheme}"));
    let mut table = Table::new(std::iter::once("cell".to_owned()).chain(names));
    for (_, cell) in &results.cells {
        let sizes: Vec<_> = cell.sizes.iter().map(|bytes| results.ratios(cell, *bytes)).collect();
        let mean = |nth: usize| {
            let medians: Option<Vec<f64>> = sizes.iter().map(|ratios| Some(ratios[nth]?.median)).collect();
            geometric_mean(&medians?)
        };
        let means: Vec<Option<f64>> = (0..results.schemes.len()).map(mean).collect();
        let rank = |mean: &Option<f64>| {
            let mean = (*mean)?;
            let better = means.iter().flatten().filter(|other| **other < mean).count();
            Some(format!("#{} ({mean:.2})", better + 1))
        };
        table.row(&cell.name, means.iter().map(|mean| rank(mean).unwrap_or_else(|| "-".to_owned())));
    }
    table
}

/// Checks of the WAN.
pub fn checks(results: &Results) -> Table {
    let mut table = Table::new(["path", "check", "#expected", "#measured", "#tolerance", "unit", "passed"]);
    for check in &results.checks {
        let figures = [check.expected, check.measured, check.tolerance].map(|value| format!("{value:.2}"));
        let passed = if check.passed() { "yes" } else { "no" }.to_owned();
        let names = [check.check.clone()].into_iter();
        table.row(&check.path, names.chain(figures).chain([check.unit.clone(), passed]));
    }
    table
}

/// How late the WAN was in each cell, and which flows that cost.
pub fn lateness(results: &Results) -> Table {
    let head = [
        "cell",
        "#flows",
        "#repeated",
        "#left out",
        "#99 % late at most, median flow",
        "#worst flow",
        "#limit",
    ];
    let mut table = Table::new(head);
    let time = |seconds: f64| about_time(Duration::from_secs_f64(seconds));
    for (_, cell) in &results.cells {
        let flows: Vec<&MeasuredFlow> = results.flows.iter().filter(|flow| flow.cell == cell.name).collect();
        let late: Vec<f64> = flows.iter().map(|flow| flow.late_p99_s).collect();
        let count = |of: fn(&MeasuredFlow) -> bool| flows.iter().filter(|flow| of(flow)).count().to_string();
        let row = [
            flows.len().to_string(),
            count(|flow| flow.attempts > 1),
            count(|flow| !flow.counts),
            MedianInterval::of(&late).map_or_else(String::new, |estimate| time(estimate.median)),
            late.iter().copied().reduce(f64::max).map_or_else(String::new, time),
            about_time(results.lateness_limit(&cell.path)),
        ];
        table.row(&cell.name, row);
    }
    table
}

fn by_size(first: &str, cell: &Cell) -> Table {
    let sizes = cell.sizes.iter().map(|bytes| format!("#{}", about_bytes(*bytes)));
    Table::new(std::iter::once(first.to_owned()).chain(sizes))
}

/// The estimate of these values as a cell.
pub fn estimated(values: impl IntoIterator<Item = f64>) -> String {
    optional(MedianInterval::of(&values.into_iter().collect::<Vec<_>>()))
}

/// The estimate as a cell.
pub fn optional(estimate: Option<MedianInterval>) -> String {
    estimate.map_or_else(|| "-".to_owned(), |estimate| interval(&estimate))
}

/// The median, and the interval unless it is the same.
fn interval(estimate: &MedianInterval) -> String {
    let digits = if estimate.median < 10.0 { 2 } else { 1 };
    let number = |value: f64| format!("{value:.digits$}");
    let (median, low, high) = (number(estimate.median), number(estimate.low), number(estimate.high));
    if low == high { median } else { format!("{median} [{low}, {high}]") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{
        cell::Company,
        results::tests::{cell, flow},
    };

    fn results() -> (Results, Cell) {
        let cell = cell("idle", Company::Nobody, 1);
        let mut flows = Vec::new();
        for run in 1..=3 {
            let more = f64::from(run) / 100.0;
            for bytes in [10_000, 1_000_000] {
                flows.push(flow(&cell, "rc3", bytes, run, 1.0 + more));
                flows.push(flow(&cell, "tcp", bytes, run, 2.0 + more));
            }
            flows.push(flow(&cell, "quinn", 10_000, run, 1.01 + more));
        }
        let schemes = ["rc3", "tcp", "quinn"].map(str::to_owned).to_vec();
        let cells = vec![("idle".to_owned(), cell.clone())];
        (Results { cells, schemes, flows, ..Results::default() }, cell)
    }

    #[test]
    fn a_completion_table_has_medians_intervals_and_ranks() {
        let (results, cell) = results();
        let table = completion(&results, &cell);
        assert_eq!(table.rows[1], ["rc3", "1.02 [1.01, 1.03] #1", "1.02 [1.01, 1.03] #1"]);
        assert_eq!(table.rows[2], ["tcp", "2.02 [2.01, 2.03] #3", "2.02 [2.01, 2.03] #2"]);
        assert_eq!(table.rows[3], ["quinn", "1.03 [1.02, 1.04] #2=", "-"]);
    }

    #[test]
    fn a_scheme_beside_itself_is_as_good() {
        let cell = cell("idle", Company::Nobody, 1);
        let flows = ["one", "other"].into_iter().flat_map(|scheme| {
            let runs = [1.2, 1.4, 1.3, 1.6, 1.5, 1.7];
            let cell = &cell;
            (1..).zip(runs).map(move |(run, ratio)| flow(cell, scheme, 10_000, run, ratio))
        });
        let schemes = vec!["one".to_owned(), "other".to_owned()];
        let results = Results { schemes, flows: flows.collect(), ..Results::default() };
        let rows = completion(&results, &cell).rows;
        assert_eq!(rows[1][1], rows[2][1]);
        assert!(rows[1][1].ends_with("#1"), "{rows:?}");
    }

    #[test]
    fn an_overview_ranks_schemes_that_have_all_sizes() {
        let (results, _) = results();
        assert_eq!(overview(&results).rows, [["idle", "#1 (1.02)", "#2 (2.02)", "-"]]);
    }

    #[test]
    fn what_was_late_is_counted() {
        let (mut results, _) = results();
        results.flows[0].attempts = 3;
        results.flows[0].counts = false;
        results.flows[1].attempts = 2;
        results.flows[1].late_p99_s = 0.0015;
        let row = &lateness(&results).rows[0];
        assert_eq!(row[1..4], ["15", "2", "1"]);
        assert_eq!(row[5..], ["1.5 ms", "2 ms"]);
    }
}
