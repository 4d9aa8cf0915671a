//! `rc3 demo`: the same bytes over the same wide-area link by plain QUIC and by rc3, side by side.

use std::path::PathBuf;

use rc3_cli::output;
use rc3_text::units::about_bytes;

use self::{links::Links, report::DemoReport, run::FinishedTransfer, scenario::DemoScenario};
use crate::{
    cli::terminal,
    error::{Error, Result},
    steps::Steps,
    table::{milliseconds, time},
    transfer::progress::Style,
};

pub mod bars;
pub mod buffer;
pub mod links;
pub mod report;
pub mod run;
pub mod scenario;

/// What to show, and how.
#[derive(Debug)]
pub struct DemoJob {
    /// The links.
    pub scenarios: Links<DemoScenario>,
    /// JSON, or text with progress.
    pub style: Style,
    /// A picture file.
    pub svg: Option<PathBuf>,
}

/// Runs the scenarios and prints the results.
///
/// # Errors
/// When a transfer fails, or the results cannot be written.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn demo(DemoJob { scenarios, style, svg }: &DemoJob) -> Result<()> {
    let steps = |scenario: &DemoScenario| 2 * u64::from(scenario.runs.most()) * scenario.sizes.len() as u64;
    let steps = Steps::new(*style, scenarios.iter().map(steps).sum());
    let reports = run_all(scenarios, &steps).await;
    steps.clear();
    let reports = reports?;
    if let Some(path) = svg {
        std::fs::write(path, reports.svg()).map_err(not_written)?;
    }
    let text = match style {
        Style::Json => reports.json() + "\n",
        _ => reports.iter().map(|report| report.text(terminal::look())).collect(),
    };
    output::print(&text).map_err(not_written)
}

fn not_written(error: std::io::Error) -> Error {
    Error::local("write the results", error).hinted("check free space and permissions")
}

async fn run_all(scenarios: &Links<DemoScenario>, steps: &Steps) -> Result<Links<DemoReport>> {
    let run = async |scenario: &DemoScenario| {
        steps.head(scenario.headline());
        run::run(scenario, |FinishedTransfer { bytes, scheme, run, fct }| {
            let (size, fct) = (about_bytes(bytes), time(milliseconds(fct)));
            steps.done(format!("run {run}: {size} {} {fct}", scheme.name()));
        })
        .await
    };
    let link = run(&scenarios.link).await?;
    let fast_card = match &scenarios.fast_card {
        Some(scenario) => Some(run(scenario).await?),
        None => None,
    };
    Ok(Links { link, fast_card })
}
