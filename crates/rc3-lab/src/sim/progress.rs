//! Progress of an experiment, or of worlds of several: a bar on a terminal, lines elsewhere, or JSON.

use std::{
    io::{self, IsTerminal, Write},
    num::NonZero,
    time::Instant,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rc3_cli::output;
use rc3_sim::scenario::OfferedLoad;
use serde_json::{Value, json};

use super::{
    engine::{Cost, Engine, WorldOutcome},
    experiment::{Experiment, ExperimentError, flows_of},
    shared::distinct_worlds,
    work::{self, World, WorldProgress},
};

/// A world, with the name of its experiment and its place there.
pub type NamedWorld<'a> = (&'a str, usize, World<'a>);

/// Runs worlds of several experiments, and reports on them. `take` gets the place and the outcome of each, in order.
///
/// # Errors
/// See [`work::run`].
pub fn run_worlds(
    engine: &dyn Engine,
    name: String,
    due: &[NamedWorld<'_>],
    threads: NonZero<usize>,
    json: bool,
    mut take: impl FnMut(usize, WorldOutcome) -> Result<(), ExperimentError>,
) -> Result<(), ExperimentError> {
    let worlds: Vec<_> = due.iter().map(|(_, _, world)| *world).collect();
    let mut progress = ProgressReport::of_worlds(name, due, json);
    let mut cost = Cost::default();
    work::run(engine, &worlds, threads, |step| {
        progress.on_step(&step);
        match step {
            WorldProgress::World(index, outcome) => {
                cost += outcome.cost;
                take(index, *outcome)
            }
            WorldProgress::Flows(_) => Ok(()),
        }
    })?;
    progress.end(&cost, 0);
    Ok(())
}

/// Reports on a number of worlds. Progress goes to standard error, JSON to standard output.
#[derive(Debug)]
pub struct ProgressReport {
    name: String,
    /// The labels of the worlds.
    worlds: Vec<String>,
    began: Instant,
    format: Format,
}

#[derive(Debug)]
enum Format {
    Bar(ProgressBar),
    Lines,
    Json,
}

impl ProgressReport {
    /// Reports the beginning of an experiment.
    pub fn new(experiment: &Experiment, json: bool) -> Self {
        let name = experiment.scenario().spec().name.clone();
        let labels = experiment.runs().iter().map(|run| run.label.to_string()).collect();
        let distinct = distinct_worlds(experiment.runs());
        Self::begin(name, labels, distinct, experiment.flows(), experiment.offered_load(), json)
    }

    /// Reports the beginning of these worlds.
    fn of_worlds(name: String, due: &[NamedWorld<'_>], json: bool) -> Self {
        let label = |(name, _, world): &NamedWorld<'_>| format!("{name}: {}", world.run.label);
        let flows = due.iter().map(|(_, _, world)| flows_of(world.run)).sum();
        Self::begin(name, due.iter().map(label).collect(), due.len(), flows, None, json)
    }

    fn begin(
        name: String,
        labels: Vec<String>,
        distinct: usize,
        flows: u64,
        load: Option<OfferedLoad>,
        json: bool,
    ) -> Self {
        let worlds = labels.len();
        let format = match (json, io::stderr().is_terminal()) {
            (true, _) => Format::Json,
            (false, true) => Format::Bar(bar(flows)),
            (false, false) => Format::Lines,
        };
        let progress = Self { name, worlds: labels, began: Instant::now(), format };
        match &progress.format {
            Format::Bar(bar) => bar.set_prefix(progress.name.clone()),
            Format::Lines => {
                let load =
                    load.map(|load| format!("; up to {:.1} % load on {}", 100.0 * load.share, load.site));
                let load = load.unwrap_or_default();
                let same = worlds - distinct;
                let same = if same > 0 { format!(", {same} of them as others") } else { String::new() };
                print_line(&format!("{}: {worlds} worlds{same}, about {flows} flows{load}", progress.name));
            }
            Format::Json => {
                let (share, site) = (load.map(|load| load.share), load.map(|load| load.site.to_string()));
                let fields = json!({ "worlds": worlds, "distinct": distinct, "flows": flows, "offered_load": share, "link": site });
                progress.json("begin", fields);
            }
        }
        progress
    }

    /// Reports what the worlds have done.
    pub fn on_step(&mut self, step: &WorldProgress) {
        match (&self.format, step) {
            (Format::Bar(bar), WorldProgress::Flows(flows)) => bar.inc(*flows),
            (Format::Bar(bar), WorldProgress::World(index, _)) => {
                bar.set_message(self.worlds[*index].clone())
            }
            (Format::Lines, WorldProgress::World(index, _)) => {
                let (label, worlds) = (&self.worlds[*index], self.worlds.len());
                print_line(&format!("{}: {} of {worlds} worlds, {label}", self.name, index + 1));
            }
            (Format::Json, WorldProgress::World(index, outcome)) => {
                let Cost { flows, events, link_packets } = outcome.cost;
                let fields = json!({
                    "label": self.worlds[*index], "done": index + 1, "worlds": self.worlds.len(),
                    "flows": flows, "events": events, "link_packets": link_packets,
                });
                self.json("world", fields);
            }
            (Format::Lines | Format::Json, WorldProgress::Flows(_)) => {}
        }
    }

    /// Reports the end, with the speed.
    pub fn end(self, cost: &Cost, pictures: usize) {
        let seconds = self.began.elapsed().as_secs_f64();
        let Cost { flows, events, link_packets } = *cost;
        match &self.format {
            Format::Json => self.json(
                "done",
                json!({ "seconds": seconds, "flows": flows, "events": events,
                        "link_packets": link_packets, "pictures": pictures }),
            ),
            format => {
                if let Format::Bar(bar) = format {
                    bar.finish_and_clear();
                }
                print_line(&format!(
                    "{}: {flows} flows in {seconds:.1} s, {:.0} flows/s, {:.0} events/s, {:.0} link-packets/s",
                    self.name,
                    flows as f64 / seconds,
                    events as f64 / seconds,
                    link_packets as f64 / seconds,
                ));
            }
        }
    }

    fn json(&self, event: &str, fields: Value) {
        let mut line = json!({ "event": event, "experiment": self.name });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        output::emit(line.to_string());
    }
}

fn bar(flows: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(flows), ProgressDrawTarget::stderr_with_hz(10));
    let template = "{prefix} {bar:30} {human_pos}/{human_len} flows, {eta} left  {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn print_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
