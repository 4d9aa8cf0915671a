//! The experiments that come with the program.

use rc3_sim::scenario::{Scenario, ScenarioError};

macro_rules! experiments {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../experiments/", $name, ".toml")))),*]
    };
}

/// Name and scenario file of each, in the order of the papers.
pub const EXPERIMENTS: &[(&str, &str)] = experiments![
    "fig2", "fig3", "fig4", "fig7", "fig8", "fig9", "fig10", "table1", "fig11", "fig12", "pacing", "downlink",
    "fig13", "mixed", "fig14a", "fig14b", "fig14c", "partial", "datacentre", "hotnets-fig5", "hotnets-fig6",
    "hotnets-fig7", "hotnets-loss", "hotnets-fig8",
];

/// Those that draw the two loops of one flow (`rc3 sim plot`).
pub const PLOTS: &[&str] = &["fig2", "fig3"];

/// The experiment of that name.
pub fn find(name: &str) -> Option<Result<Scenario, ScenarioError>> {
    let (name, text) = EXPERIMENTS.iter().find(|(known, _)| *known == name)?;
    Some(Scenario::parse(text, &format!("{name}.toml")))
}
