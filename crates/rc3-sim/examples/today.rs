//! rc3 on the networks of today: an idle FIFO and strict priority, a card ten times as fast as the bottleneck.
//!
//! `cargo run -p rc3-sim --example today -- [quick] [fifo] [priority] [guard] [trust] [oracle]`: plain and guard over
//! both disciplines unless others are named.

use std::{io::Write, num::NonZero, thread};

use rc3_sim::today::{self, Discipline, Scheme, report};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| words.iter().any(|word| word == name);
    let mut disciplines: Vec<Discipline> = [Discipline::Fifo, Discipline::Priority].into();
    if disciplines.iter().any(|discipline| named(&discipline.to_string())) {
        disciplines.retain(|discipline| named(&discipline.to_string()));
    }
    let mut schemes: Vec<Scheme> = words.iter().filter_map(|word| Scheme::named(word)).collect();
    if schemes.is_empty() {
        schemes.push(Scheme::Guard);
    }
    schemes.insert(0, Scheme::Plain);
    let cells = if named("quick") { today::quick(&disciplines) } else { today::grid(&disciplines) };
    let threads = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let mut done = 0;
    let rows = today::run(&cells, &schemes, threads, |row| {
        done += 1;
        let _ = write!(std::io::stderr(), "\r{done} of {} cells, {:70}", cells.len(), row.cell.to_string());
    });
    let _ = writeln!(std::io::stderr());
    println!("{}", report::text(&rows));
}
