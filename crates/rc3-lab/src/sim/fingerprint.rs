//! Whether a report still is what the code measures: a hash of the scenario and of a small part of it, run.
//!
//! A full experiment takes minutes to an hour. A dozen flows of every setting and run take milliseconds: the first ones, between
//! so few hosts that they share links. Some of a dozen flows of the papers' sizes have megabytes, which reach the worse levels
//! and the limits of buffers. If all come out as before, to the nanosecond and the packet, and no key has changed, the code
//! treats such flows as it did. What thousands of flows do to each other is not covered.

use std::{iter, sync::LazyLock, time::Duration};

use rc3_sim::{
    scenario::{Run, Scenario},
    workload::{ArrivalProcess, Listed, PACKET, PACKET_ON_THE_WIRE, Workload},
};

use super::{engine::Engine, experiment::ExperimentError, shared::RememberingEngine, simulator::Simulator};

/// Keys that change no flow.
const PROSE: [&str; 8] =
    ["title", "source", "about", "basis", "expect", "picture", "measure.fct", "measure.quick-hosts"];
/// Hexadecimal digits.
const DIGITS: usize = 16;
/// Flows of a small world, and pairs of hosts that they are between.
const FLOWS: usize = 12;
const PAIRS: usize = 3;
/// Longest flow of a small world: the whole video of `pacing` would take seconds.
const PACKETS_MAX: u64 = 1500;
/// When a small world ends at the latest.
const ROUND_TRIPS: u32 = 35;

/// Experiments have many of their small worlds in common.
static WORLDS: LazyLock<RememberingEngine<Simulator>> = LazyLock::new(|| RememberingEngine::new(Simulator));

/// The fingerprint of a scenario: 16 hexadecimal digits.
pub fn fingerprint(scenario: &Scenario) -> Result<String, ExperimentError> {
    let mut hasher = blake3::Hasher::new();
    let keys = defining_keys(scenario);
    hasher.update(keys.as_bytes());
    // The flows of `arrivals = "csv"` are no keys, and small worlds have the first ones alone.
    let replays = keys.contains("\"csv\"");
    for run in scenario.expand()?.iter().filter(|run| run.label.repetition == 0) {
        hasher.update(run.label.to_string().as_bytes());
        match WORLDS.simulate(&small(run), false, &mut |_| ()) {
            Ok(outcome) => {
                let parts = (&outcome.records, &outcome.samples, &outcome.links);
                serde_json::to_writer(&mut hasher, &parts).expect("a hasher takes everything");
            }
            // In so short a time no flow may end.
            Err(message) => {
                hasher.update(message.as_bytes());
            }
        }
        for workload in iter::once(&run.workload).chain(&run.background).filter(|_| replays) {
            hasher.update(format!("{:?}", workload.arrivals).as_bytes());
        }
    }
    Ok(hasher.finalize().to_hex()[..DIGITS].to_owned())
}

/// A world, cut down; one of one flow is small.
fn small(run: &Run) -> Run {
    if run.one().is_some() {
        return run.clone();
    }
    let mut small = run.clone();
    let measure = &mut small.measure;
    (measure.flows, measure.warm_up, measure.from) = (FLOWS as u64, 0, Duration::ZERO);
    let nominal = run.topology.nominal;
    let packets = 2 * PACKETS_MAX * PACKET_ON_THE_WIRE;
    measure.until = Some(nominal.rtt * ROUND_TRIPS + nominal.rate.time_for(packets));
    small.workload = few(&run.workload, run);
    small.background = run.background.iter().map(|workload| few(workload, run)).collect();
    small
}

/// The first flows of a workload, from the beginning on.
fn few(workload: &Workload, run: &Run) -> Workload {
    if matches!(workload.arrivals, ArrivalProcess::ClosedLoop(_)) {
        return workload.clone();
    }
    let flows: Vec<_> = workload.flows(&run.topology, run.seed).take(FLOWS).collect();
    let begin = flows.first().map_or(Duration::ZERO, |flow| flow.at);
    let listed = flows.iter().zip(flows.iter().take(PAIRS).cycle()).map(|(flow, pair)| Listed {
        at: flow.at - begin,
        from: pair.from,
        to: pair.to,
        bytes: flow.bytes.min(PACKETS_MAX * PACKET),
    });
    Workload { arrivals: ArrivalProcess::List(listed.collect()), writes: workload.writes }
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
        longer.set("measure.until=6s").unwrap();
        assert_ne!(of(&same), of(&longer), "another experiment, though it begins alike");
    }

    #[test]
    fn every_row_of_a_file_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("replay.toml");
        let text = "name = 'replay'\ntitle = 'Replay'\ntopology.kind = 'internet2'\n\
                    workload = { arrivals = 'csv', file = 'flows.csv' }\nscheme = [{ name = 'plain', kind = 'plain' }]";
        let with_rows = |rows: u32| {
            let rows: String = (0..rows).map(|row| format!("{row},0,{},1460\n", 50 + row)).collect();
            let file = format!("time_s,source,destination,bytes\n{rows}");
            std::fs::write(folder.path().join("flows.csv"), file).unwrap();
            of(&Scenario::parse(text, path.to_str().unwrap()).unwrap())
        };
        assert_eq!(with_rows(13), with_rows(13));
        assert_ne!(with_rows(13), with_rows(14));
    }

    /// The flows of every small world reach the third level of the ladder, and end.
    #[test]
    fn small_worlds_have_long_flows_that_end() {
        for name in ["fig8", "datacentre"] {
            for run in catalogue::find(name).unwrap().unwrap().expand().unwrap() {
                let outcome = WORLDS.simulate(&small(&run), false, &mut |_| ()).unwrap();
                assert_eq!(outcome.records.len(), FLOWS, "{name} {}", run.label);
                let sizes = outcome.records.iter().filter(|record| record.fct.is_some());
                assert!(sizes.map(|record| record.bytes).max() > Some(441 * PACKET), "{name} {}", run.label);
            }
        }
    }
}
