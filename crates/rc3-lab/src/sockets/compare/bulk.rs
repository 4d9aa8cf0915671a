//! One long stream.

use rc3_lab::sockets::contenders::{Result, Service};

use crate::{participant::Participant, place::Place};

/// What one of them reached, by run.
#[derive(Default)]
pub(crate) struct Results {
    gbit_per_second: Vec<f64>,
    pub(crate) gbit_per_cpu_second: Vec<f64>,
}

/// Runs the participants in turn and prints a table of medians.
pub(crate) fn compare(place: &Place, participants: &[Participant], bytes: u64, runs: usize) -> Result<()> {
    let mut results = measure(place, participants, bytes, runs)?;
    println!("{} MB over {}, medians of {runs} (smallest to largest):", bytes / 1_000_000, place.name());
    println!("{:12} {:>24} {:>30}", "", "Gbit/s", "Gbit per CPU-second, both ends");
    for (participant, Results { gbit_per_second, gbit_per_cpu_second }) in &mut results {
        println!("{:12} {:>24} {:>30}", participant.name(), row(gbit_per_second), row(gbit_per_cpu_second));
    }
    Ok(())
}

/// Runs the participants in turn.
pub(crate) fn measure(
    place: &Place,
    participants: &[Participant],
    bytes: u64,
    runs: usize,
) -> Result<Vec<(Participant, Results)>> {
    let mut results: Vec<_> =
        participants.iter().map(|&participant| (participant, Results::default())).collect();
    let gbit = bytes as f64 * 8.0 / 1e9;
    for run in 1..=runs {
        for (participant, results) in &mut results {
            let printed = place.run(*participant, Service::Mirror, "send", &[bytes.to_string()])?;
            let mut numbers = printed.split_whitespace().map(str::parse::<f64>);
            let mut next = || numbers.next().ok_or("the client printed too little")?.map_err(|_| "no number");
            let (seconds, cpu) = (next()?, next()?);
            results.gbit_per_second.push(gbit / seconds);
            results.gbit_per_cpu_second.push(gbit / cpu);
            eprintln!(
                "run {run} of {runs}: {} {:.2} Gbit/s, {cpu:.2} CPU s",
                participant.name(),
                gbit / seconds
            );
        }
    }
    Ok(results)
}

fn row(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    match values {
        [] => String::new(),
        [least, ..] => {
            let (least, most) = (*least, values[values.len() - 1]);
            format!("{:.2} ({least:.2} to {most:.2})", values[values.len() / 2])
        }
    }
}
