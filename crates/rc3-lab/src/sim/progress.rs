//! How an experiment is told while it runs: a bar on a terminal, lines elsewhere, or JSON.

use std::{
    io::{self, IsTerminal, Write},
    time::Instant,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::{
    experiment::{Event, Experiment},
    report::Finding,
};

/// Tells of one experiment. Progress goes to standard error, JSON to standard output.
#[derive(Debug)]
pub struct Progress {
    name: String,
    worlds: usize,
    began: Instant,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Bar(ProgressBar),
    Lines,
    Json,
}

impl Progress {
    /// Begins.
    pub fn new(experiment: &Experiment, json: bool) -> Self {
        let (worlds, flows) = (experiment.runs().len(), experiment.flows());
        let way = match (json, io::stderr().is_terminal()) {
            (true, _) => Way::Json,
            (false, true) => Way::Bar(bar(flows)),
            (false, false) => Way::Lines,
        };
        let name = experiment.scenario().spec().name.clone();
        let progress = Self { name, worlds, began: Instant::now(), way };
        match &progress.way {
            Way::Bar(bar) => bar.set_prefix(progress.name.clone()),
            Way::Lines => say(&format!("{}: {worlds} worlds, about {flows} flows", progress.name)),
            Way::Json => progress.json("begin", json!({ "worlds": worlds, "flows": flows })),
        }
        progress
    }

    /// Something has happened.
    pub fn tell(&mut self, event: &Event) {
        match (&self.way, event) {
            (Way::Bar(bar), Event::Flows(flows)) => bar.inc(*flows),
            (Way::Bar(bar), Event::World { label, .. }) => bar.set_message(label.clone()),
            (Way::Lines, Event::World { label, before, .. }) => {
                say(&format!("{}: {} of {} worlds, {label}", self.name, before + 1, self.worlds));
            }
            (Way::Json, Event::World { label, before, cost }) => {
                let fields = json!({
                    "label": label, "done": before + 1, "worlds": self.worlds, "flows": cost.flows,
                    "events": cost.events, "link_packets": cost.link_packets,
                });
                self.json("world", fields);
            }
            (Way::Lines | Way::Json, Event::Flows(_)) => {}
        }
    }

    /// Ends, with how fast it was.
    pub fn end(self, finding: &Finding) {
        let seconds = self.began.elapsed().as_secs_f64();
        let (flows, packets) = (finding.cost.flows, finding.cost.link_packets);
        if let Way::Bar(bar) = &self.way {
            bar.finish_and_clear();
        }
        match self.way {
            Way::Json => self.json(
                "done",
                json!({ "seconds": seconds, "flows": flows, "events": finding.cost.events,
                        "link_packets": packets, "pictures": finding.pictures.len() }),
            ),
            _ => say(&format!(
                "{}: {flows} flows in {seconds:.1} s, {:.0} flows/s, {:.0} events/s, {:.0} link-packets/s",
                self.name,
                flows as f64 / seconds,
                finding.cost.events as f64 / seconds,
                packets as f64 / seconds,
            )),
        }
    }

    fn json(&self, event: &str, fields: Value) {
        let mut line = json!({ "event": event, "experiment": self.name });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        let _ = writeln!(io::stdout(), "{line}");
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

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
