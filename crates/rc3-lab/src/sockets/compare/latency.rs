//! Requests and responses, one after the other.

use rc3_lab::sockets::contenders::{Exchange, Result, Service};

use crate::{participant::Participant, place::Place};

/// Of the times of exchanges.
pub(crate) const PERCENTILES: [f64; 6] = [10.0, 50.0, 90.0, 99.0, 99.9, 100.0];

/// Runs the participants in turn and prints a table of percentiles: medians over the runs.
pub(crate) fn compare(
    place: &Place,
    participants: &[Participant],
    exchange: &Exchange,
    runs: usize,
) -> Result<()> {
    let Exchange { count, bytes, new_connections } = exchange;
    let results = measure(place, participants, exchange, runs)?;
    let connections = if *new_connections { "each on a new connection" } else { "on one connection" };
    println!(
        "{count} exchanges of {bytes} bytes both ways {connections} over {}, us, medians of {runs} runs:",
        place.name()
    );
    print!("{:12}", "");
    PERCENTILES.iter().for_each(|percentile| print!(" {percentile:>8} %"));
    println!();
    for (participant, runs) in &results {
        print!("{:12}", participant.name());
        for column in 0..PERCENTILES.len() {
            let mut values: Vec<_> = runs.iter().map(|run| run[column]).collect();
            values.sort_unstable();
            print!(" {:>10}", at(&values, 50.0));
        }
        println!();
    }
    Ok(())
}

/// Runs the participants in turn; for each and each run the [`PERCENTILES`] in us.
pub(crate) fn measure(
    place: &Place,
    participants: &[Participant],
    exchange: &Exchange,
    runs: usize,
) -> Result<Vec<(Participant, Vec<[u64; PERCENTILES.len()]>)>> {
    let mut results: Vec<_> = participants.iter().map(|&participant| (participant, Vec::new())).collect();
    let mut arguments = vec![exchange.count.to_string(), exchange.bytes.to_string()];
    if exchange.new_connections {
        arguments.push("--new-connections".to_owned());
    }
    for run in 1..=runs {
        for (participant, results) in &mut results {
            let printed = place.run(*participant, Service::Mirror, "ask", &arguments)?;
            let mut micros: Vec<u64> =
                printed.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
            micros.sort_unstable();
            results.push(PERCENTILES.map(|percentile| at(&micros, percentile)));
            eprintln!("run {run} of {runs}: {} median {} us", participant.name(), at(&micros, 50.0));
        }
    }
    Ok(results)
}

/// The value below which `percentile` of the sorted ones lie.
fn at(sorted: &[u64], percentile: f64) -> u64 {
    let rank = (percentile / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
