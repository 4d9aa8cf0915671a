//! A small part of the grid of today's paths: what holds already.

use std::num::NonZero;

use rc3_core::Verdict;
use rc3_sim::today::{self, Cell, Row, SCENARIOS, Scenario, Scheme, report::Summary};

const SCHEMES: [Scheme; 3] = [Scheme::Plain, Scheme::Guard, Scheme::Oracle];

fn threads(count: usize) -> NonZero<usize> {
    NonZero::new(count).expect("some")
}

fn quick(name: &str) -> Vec<Cell> {
    Scenario::find(name).expect("it is there").quick()
}

fn run(cells: &[Cell], schemes: &[Scheme]) -> Vec<Row> {
    let rows = today::run(cells, schemes, threads(2), |_| ());
    for row in &rows {
        for (scheme, outcome) in &row.outcomes {
            assert!(outcome.fct.is_some(), "{scheme} never ends: {}", row.cell);
        }
    }
    rows
}

#[test]
fn nobody_is_faster_than_the_ideal_and_the_oracle_is_near_it() {
    for name in ["fifo", "priority"] {
        let rows = run(&quick(name), &SCHEMES);
        for row in &rows {
            for scheme in SCHEMES {
                let ratio = row.ratio_to_ideal(scheme).expect("it ran");
                assert!(ratio > 0.99, "{scheme}, {}: {ratio}", row.cell);
            }
        }
        let oracle = Summary::new(&rows, Scheme::Oracle);
        assert!(oracle.ideal.worst < 1.1 && oracle.above == 0, "{name}: {oracle:?}");
    }
}

#[test]
fn guard_loses_nothing_on_strict_priority() {
    let rows = run(&quick("priority"), &[Scheme::Guard]);
    let guard = Summary::new(&rows, Scheme::Guard);
    assert!(guard.above == 0 && guard.plain.mean < 0.75, "{guard:?}");
    assert_eq!(guard.verdicts[1], 0, "{guard:?}");
}

#[test]
fn every_scenario_runs() {
    let slow = 20_000_000;
    for (name, _) in SCENARIOS {
        let mut cells = quick(name);
        cells.retain(|cell| cell.bytes <= 300_000 && cell.path.rate.bits_per_second() == slow);
        assert!(!cells.is_empty(), "{name}");
        run(&cells, &[Scheme::Guard]);
    }
}

/// Behind four flows ours has less of the link than behind one.
#[test]
fn all_rivals_are_there() {
    let fct = |name| {
        let mut cells = Scenario::find(name).expect("it is there").cells();
        let first = cells
            .iter()
            .find(|cell| cell.bytes == 1_000_000 && cell.path.buffer == 0.5)
            .map(|cell| cell.path);
        cells.retain(|cell| cell.bytes == 1_000_000 && Some(cell.path) == first);
        let rows = run(&cells, &[]);
        rows.iter().map(|row| row.fct(Scheme::Plain).expect("it ran")).sum::<f64>()
    };
    let (one, four) = (fct("fifo-cubic"), fct("fifo-four-rivals"));
    assert!(1.2 * one < four, "{one} s beside one, {four} s beside four");
}

#[test]
fn rows_do_not_depend_on_the_number_of_threads() {
    let mut cells = quick("fifo-load");
    cells.truncate(4);
    let rows = |count| today::run(&cells, &[Scheme::Guard], threads(count), |_| ());
    assert_eq!(rows(1), rows(3));
}

#[test]
fn what_others_keep_is_counted_over_the_same_time() {
    let mut cells = quick("fifo-cubic");
    cells.retain(|cell| cell.bytes <= 300_000);
    cells.truncate(2);
    for row in run(&cells, &[Scheme::Guard]) {
        let harm = |scheme| row.outcome(scheme).expect("it ran").harm.clone();
        let (plain, guard) = (harm(Scheme::Plain), harm(Scheme::Guard));
        assert!(plain.window.is_some() && plain.window == guard.window);
        // The rival has most of the link.
        let bits = 8.0 * plain.bytes as f64 / plain.window.expect("some").as_secs_f64();
        let share = bits / row.cell.path.rate.bits_per_second() as f64;
        assert!((0.5..=1.01).contains(&share), "{}: {share}", row.cell);
        assert!(row.kept(Scheme::Guard).is_some_and(|kept| (0.5..1.5).contains(&kept)));
    }
}

#[test]
fn a_destination_that_was_taught_is_remembered() {
    let mut cells = quick("fifo-known");
    cells.retain(|cell| cell.path.rtt.as_millis() == 20 && cell.path.rate.bits_per_second() == 20_000_000);
    let rows = run(&cells, &[Scheme::Guard]);
    let ignored = |row: &&Row| row.outcome(Scheme::Guard).and_then(|o| o.verdict) == Some(Verdict::Ignored);
    assert!(rows.iter().any(|row| ignored(&row)), "{rows:#?}");
}
