//! Whether a report still is what the code measures: a hash of the scenario and of a small part of it, run.
//!
//! A full experiment takes minutes to an hour. The first three round trips of its first setting, with one host at each
//! router, take a fraction of a second. If their flows come out as before, to the nanosecond and the packet, and no key
//! has changed, the code still does what it did.

use std::time::Duration;

use rc3_sim::{
    record::FlowRecord,
    scenario::{Arrivals, Run, Scenario},
    simulation::{Simulation, SimulationError},
};

use super::experiment::ExperimentError;

/// Keys that change no flow.
const PROSE: [&str; 8] =
    ["title", "source", "about", "basis", "expect", "picture", "measure.fct", "measure.quick-hosts"];
/// Hexadecimal digits.
const DIGITS: usize = 16;

/// The fingerprint of a scenario: 16 hexadecimal digits.
///
/// # Errors
/// If a world cannot be made or run.
pub fn fingerprint(scenario: &Scenario) -> Result<String, ExperimentError> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(defining_keys(scenario).as_bytes());
    let runs = small(scenario)?;
    for run in runs.iter().filter(|run| run.label.is_of_setting(&runs[0].label)) {
        let label = run.label.to_string();
        hasher.update(label.as_bytes());
        let failed = |error: SimulationError| ExperimentError::World {
            label: label.clone(),
            message: error.to_string(),
        };
        let mut simulation = Simulation::new(run).map_err(failed)?;
        while simulation.step().map_err(failed)? {}
        std::iter::from_fn(|| simulation.poll_record()).for_each(|record| add(&mut hasher, &record));
    }
    Ok(hasher.finalize().to_hex()[..DIGITS].to_owned())
}

/// The worlds of a scenario, cut down.
fn small(scenario: &Scenario) -> Result<Vec<Run>, ExperimentError> {
    let round_trips = scenario.expand()?.first().map_or(Duration::ZERO, |run| 3 * run.topology.nominal.rtt);
    if scenario.spec().workload.arrivals == Arrivals::One {
        // It is small.
        return Ok(scenario.expand()?);
    }
    let mut small = scenario.clone();
    for change in ["measure.repetitions=1", "measure.flows=100", "measure.warm-up=0"] {
        small.set(change)?;
    }
    small.set(&format!("measure.until={}us", round_trips.as_micros()))?;
    let mut smaller = small.clone();
    // Not where flows name their hosts.
    match smaller.set("topology.hosts=1").and_then(|()| smaller.expand()) {
        Ok(runs) => Ok(runs),
        Err(_) => Ok(small.expand()?),
    }
}

/// The scenario without its prose and without the printed figures.
fn defining_keys(scenario: &Scenario) -> String {
    let mut table: toml::Table = scenario.to_toml().parse().unwrap_or_default();
    for key in PROSE {
        match key.split_once('.') {
            None => table.remove(key),
            Some((outer, inner)) => {
                table.get_mut(outer).and_then(toml::Value::as_table_mut).and_then(|table| table.remove(inner))
            }
        };
    }
    table.to_string()
}

fn add(hasher: &mut blake3::Hasher, record: &FlowRecord) {
    let nanoseconds = |time: Option<Duration>| time.map_or(u64::MAX, |time| time.as_nanos() as u64);
    let numbers = [
        u64::from(record.flow.0),
        record.bytes,
        nanoseconds(record.fct),
        nanoseconds(record.fct_acked),
        record.received.primary_bytes,
        record.received.rlp_bytes,
        record.sent.primary_packets,
        record.sent.rlp_packets,
        record.sent.lost_packets,
    ];
    numbers.iter().for_each(|number| {
        hasher.update(&number.to_le_bytes());
    });
}

#[cfg(test)]
mod tests {
    use super::{super::catalogue, *};

    fn of(scenario: &Scenario) -> String {
        fingerprint(scenario).unwrap()
    }

    #[test]
    fn what_changes_no_flow_changes_no_fingerprint() {
        let scenario = || catalogue::find("fig8").unwrap().unwrap();
        let (same, mut other) = (scenario(), scenario());
        other.set("title=Another").unwrap();
        assert_eq!(of(&same), of(&other));
        other.set("scheme.rc3.initial-window=5").unwrap();
        assert_ne!(of(&same), of(&other));
        let mut longer = scenario();
        longer.set("measure.flows=20000").unwrap();
        assert_ne!(of(&same), of(&longer), "another experiment, though it begins alike");
    }
}
