//! The experiments that come with the program.

use rc3_sim::{
    registry::Registry,
    scenario::{Basis, Scenario, ScenarioError},
};

macro_rules! experiments {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../experiments/", $folder, $name, ".toml")))),*]
    };
}

/// Name and scenario file of each, in the order of the papers.
pub const EXPERIMENTS: &[(&str, &str)] = experiments!["":
    "fig2", "fig3", "fig4", "fig7", "fig8", "fig9", "fig10", "table1", "fig11", "fig12", "pacing",
    "downlink", "fig13", "mixed", "fig14a", "fig14b", "fig14c", "partial", "partial-readings",
    "datacentre", "hotnets-fig5", "hotnets-fig6", "hotnets-fig7", "hotnets-loss", "hotnets-fig8",
    "kickass-fig2", "kickass-fig3", "kickass-table1", "kickass-fig4", "kickass-fig5", "kickass-silence",
    "kickass-silence-load", "kickass-fig7", "kickass-fig8", "kickass-fig9", "kickass-rc3",
];

/// Name and scenario file of each path of today (`rc3-lab sim today`), in the order of their report.
pub const TODAY: &[(&str, &str)] = experiments!["today/":
    "fifo", "fifo-card-1", "fifo-card-100", "drop-front", "codel", "flow-fair", "cake", "policer",
    "background", "inverted", "bleached", "priority", "priority-card-100", "fifo-known", "fifo-elsewhere",
    "fifo-stale-fast", "fifo-stale-slow", "priority-known", "fifo-cubic", "fifo-known-cubic",
    "fifo-newreno", "fifo-four-rivals", "fifo-load", "priority-cubic", "loss-0.1", "loss-1",
    "rate-halves", "rate-doubles", "jitter-1", "jitter-3", "jitter-10", "reordering-2",
    "receiver-batches",
];

/// The experiment of that name.
pub fn find(name: &str) -> Option<Result<Scenario, ScenarioError>> {
    find_with(name, &Registry::default())
}

/// The experiment of that name; changes of it may use the names of `registry`.
pub fn find_with(name: &str, registry: &Registry) -> Option<Result<Scenario, ScenarioError>> {
    Some(Scenario::parse_with(text(name)?, &format!("{name}.toml"), registry))
}

/// The scenario file of that name.
pub fn text(name: &str) -> Option<&'static str> {
    EXPERIMENTS.iter().chain(TODAY).find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The experiments that `all` means: in a quick run only those whose figures are scored, so no fits and what-ifs.
pub fn all(quick: bool) -> impl Iterator<Item = &'static str> {
    let scored =
        |name| matches!(find(name), Some(Ok(scenario)) if scenario.spec().basis == Basis::Independent);
    EXPERIMENTS.iter().map(|(name, _)| *name).filter(move |name| !quick || scored(name))
}

/// Name, title and source of every experiment: lines for people, or one JSON object per line.
pub fn list(json: bool) -> String {
    let width = EXPERIMENTS.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, _) in EXPERIMENTS {
        // Every one of them parses: a test.
        let Some(Ok(scenario)) = find(name) else { continue };
        let spec = scenario.spec();
        let line = match json {
            true => serde_json::json!({ "name": spec.name, "title": spec.title, "source": spec.source })
                .to_string(),
            false => format!("{name:width$}  {}  ({})", spec.title, spec.source),
        };
        text += &line;
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use rc3_sim::scenario::Label;

    use super::*;
    use crate::sim::compare::is_at;

    #[test]
    fn a_quick_run_of_all_leaves_out_what_is_not_scored() {
        assert_eq!(all(false).count(), EXPERIMENTS.len());
        let quick: Vec<_> = all(true).collect();
        assert!(quick.contains(&"table1"), "has a fit among others");
        assert!(!quick.contains(&"partial-readings"), "a what-if");
    }

    #[test]
    fn every_experiment_makes_worlds_and_is_named_like_its_file() {
        for (name, _) in EXPERIMENTS {
            let scenario = find(name).unwrap().unwrap();
            assert_eq!(scenario.spec().name, *name);
            assert!(!scenario.spec().about.is_empty() && !scenario.spec().source.is_empty(), "{name}");
            assert!(!scenario.expand().unwrap().is_empty(), "{name}");
        }
    }

    #[test]
    fn every_path_of_today_makes_worlds_and_is_named_like_its_file() {
        for (name, _) in TODAY {
            let scenario = find(name).unwrap().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(scenario.spec().name, *name);
            assert!(scenario.expand().unwrap().iter().all(|run| run.one().is_some()), "{name}");
        }
        assert_eq!(find("fifo").unwrap().unwrap().expand().unwrap().len(), 2 * 252);
    }

    #[test]
    fn list_has_a_line_for_every_experiment() {
        for json in [false, true] {
            let text = list(json);
            assert_eq!(text.lines().count(), EXPERIMENTS.len());
            for ((name, _), line) in EXPERIMENTS.iter().zip(text.lines()) {
                assert!(line.contains(name), "{line}");
            }
        }
    }

    #[test]
    fn every_printed_figure_is_of_a_world_there_is() {
        for (name, _) in EXPERIMENTS {
            let scenario = find(name).unwrap().unwrap();
            let runs = scenario.expand().unwrap();
            for expect in &scenario.spec().expect {
                let is_of = |label: &Label| label.run == expect.run && is_at(expect, label);
                assert!(runs.iter().any(|run| is_of(&run.label)), "{name}: {expect:?}");
            }
        }
    }
}
