//! Flows that have ended in every run of a setting (`measure.pair`).

use std::collections::HashMap;

use rc3_sim::scenario::Run;

use super::engine::WorldOutcome;

/// Leaves out of the worlds of one setting the flows that have not ended in all runs of their repetition.
pub fn pair(worlds: &mut [(&Run, WorldOutcome)]) {
    let mut ended: HashMap<_, usize> = HashMap::new();
    for (run, outcome) in worlds.iter_mut() {
        outcome.records.retain(|record| record.completion(run.measure.fct).is_some());
        for record in &outcome.records {
            *ended.entry((run.label.repetition, record.flow)).or_default() += 1;
        }
    }
    let repetitions: Vec<u32> = worlds.iter().map(|(run, _)| run.label.repetition).collect();
    for (run, outcome) in worlds {
        let repetition = run.label.repetition;
        let runs = repetitions.iter().filter(|other| **other == repetition).count();
        outcome.records.retain(|record| ended[&(repetition, record.flow)] == runs);
    }
}
