//! rc3 on the networks of today; the same as `rc3-lab sim today`, and quicker to build.
//!
//! `cargo run -p rc3-sim --example today -- [quick] [all | SCENARIO ...] [SCHEME ...]`: the scenarios fifo and priority
//! with guard, unless others are named. `list` prints the names.

use std::{io::Write, num::NonZero, thread};

use rc3_sim::today::{self, SCENARIOS, Scenario, Scheme, report};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| words.iter().any(|word| word == name);
    if named("list") {
        for scenario in SCENARIOS.iter().filter_map(|(name, _)| Scenario::find(name)) {
            println!("{:20} {}", scenario.name, scenario.title);
        }
        println!("\nschemes: {}", Scheme::ALL.map(|scheme| scheme.to_string()).join(" "));
        return;
    }
    let mut names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
    if !named("all") {
        names.retain(|name| named(name));
    }
    if names.is_empty() {
        names.extend(["fifo", "priority"]);
    }
    let mut schemes: Vec<Scheme> = words.iter().filter_map(|word| Scheme::named(word)).collect();
    if schemes.is_empty() {
        schemes.push(Scheme::Guard);
    }
    let scenarios = names.iter().filter_map(|name| Scenario::find(name));
    let cells: Vec<_> = scenarios
        .flat_map(|scenario| if named("quick") { scenario.quick() } else { scenario.cells() })
        .collect();
    let threads = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let mut done = 0;
    let rows = today::run(&cells, &schemes, threads, |row| {
        done += 1;
        let _ = write!(std::io::stderr(), "\r{done} of {} cells, {:70}", cells.len(), row.cell.to_string());
    });
    let _ = writeln!(std::io::stderr());
    println!("{}", report::text(&rows, report::WORST));
}
