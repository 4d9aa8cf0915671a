//! Requests and responses, one after the other.

use rc3_lab::{
    sockets::contenders::{Contender, Exchange, Result, Service},
    statistics::Estimate,
};

use crate::{participant::Participant, place::Place};

/// Of the times of exchanges.
const PERCENTILES: [f64; 6] = [10.0, 50.0, 90.0, 99.0, 99.9, 100.0];

/// At which participants are compared run by run; the others are those of few exchanges.
const COMPARED: [f64; 4] = [10.0, 50.0, 90.0, 99.0];

/// With which they are compared.
const REFERENCE: Participant = Participant::Own(Contender::Quinn);

/// Times of one run at the [`PERCENTILES`], in us.
type Times = [u64; PERCENTILES.len()];

/// Runs the participants in turn and prints a table of percentiles, medians over the runs; and if the reference takes
/// part, the others' times over its times.
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
    if let Some((_, reference)) = results.iter().find(|(participant, _)| *participant == REFERENCE) {
        println!("time over that of {} in the same run, median and 95 % interval:", REFERENCE.name());
        for (participant, runs) in results.iter().filter(|(participant, _)| *participant != REFERENCE) {
            print!("{:12}", participant.name());
            for percentile in COMPARED {
                if let Some(Estimate { median, low, high, .. }) =
                    Estimate::of(&ratios(runs, reference, percentile))
                {
                    print!("   {median:.3} ({low:.3} to {high:.3})");
                }
            }
            println!();
        }
    }
    Ok(())
}

/// The times at a percentile over those of the same run of another participant; none if it is not one of the
/// [`PERCENTILES`].
pub(crate) fn ratios(runs: &[Times], reference: &[Times], percentile: f64) -> Vec<f64> {
    let Some(column) = PERCENTILES.iter().position(|&known| known == percentile) else { return Vec::new() };
    runs.iter().zip(reference).map(|(run, reference)| run[column] as f64 / reference[column] as f64).collect()
}

/// Runs the participants in turn.
pub(crate) fn measure(
    place: &Place,
    participants: &[Participant],
    exchange: &Exchange,
    runs: usize,
) -> Result<Vec<(Participant, Vec<Times>)>> {
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
