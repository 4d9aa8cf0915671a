//! Progress of a bench: a bar on a terminal, a line per flow elsewhere, or JSON events.

use std::io;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rc3_cli::output;
use rc3_text::units::{about_bytes, about_rate, about_time};
use serde::Serialize;

use super::{
    error::BenchError,
    outcome::Outcome,
    pace::Pace,
    plan::{Amount, Direction, Flow, Kind, Plan},
    report::{Bulk, Report, Row},
};
use crate::{
    NAME,
    figures::PathFigures,
    scheme::Scheme,
    table::{milliseconds, time},
    transfer::progress::{Style, json, line},
};

/// Events as `--json` prints them. Units are bytes, seconds and bits per second unless named.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The listener accepts the plan.
    Start {
        /// The listener's address.
        peer: String,
        /// The smallest round trip so far.
        rtt_ms: f64,
        /// The plan.
        #[serde(flatten)]
        plan: &'a Plan,
        /// Flows of the plan.
        flows: usize,
    },
    /// A flow of a size was measured.
    Flow {
        /// Its direction.
        direction: Direction,
        /// Its scheme.
        scheme: Scheme,
        /// Its run, from 1.
        run: u32,
        /// Its size.
        bytes: u64,
        /// See [`Outcome::fct`].
        fct_ms: f64,
        /// What its sender measured.
        path: &'a PathFigures,
        /// Estimate of the remaining time, once every kind of flow was measured.
        eta_seconds: Option<f64>,
    },
    /// A bulk flow was measured.
    Bulk {
        /// Its direction.
        direction: Direction,
        /// Its scheme.
        scheme: Scheme,
        /// Bytes that arrived.
        bytes: u64,
        /// The time in which they arrived.
        seconds: f64,
        /// The rate.
        bits_per_second: f64,
        /// What its sender measured.
        path: &'a PathFigures,
        /// Estimate of the remaining time, once every kind of flow was measured.
        eta_seconds: Option<f64>,
    },
    /// One size in one direction, by both schemes.
    Result(&'a Row),
    /// The bulk rates of one direction.
    BulkResult(&'a Bulk),
    /// All is measured.
    Done {
        /// The smallest round trip.
        rtt_ms: f64,
    },
    /// The command failed.
    Error {
        /// The error.
        message: String,
        /// What the user can do.
        hint: &'a str,
    },
}

/// Prints the progress.
#[derive(Debug)]
pub struct Progress {
    style: Style,
    bar: Option<ProgressBar>,
    pace: Pace,
}

impl Progress {
    /// In this style.
    pub fn new(style: Style, plan: &Plan) -> Self {
        Self { style, bar: None, pace: Pace::new(plan) }
    }

    /// The listener has accepted the plan.
    pub(super) fn start(&mut self, report: &Report) {
        let flows = self.pace.flows();
        let (peer, rtt_ms) = (report.peer.to_string(), milliseconds(report.rtt));
        match self.style {
            Style::Json => json(&Event::Start { peer, rtt_ms, plan: &report.plan, flows }),
            Style::Bar => self.bar = Some(bar(flows as u64)),
            Style::Lines => {
                line(io::stderr(), &format!("{peer}, round trip {}: {flows} flows", time(rtt_ms)))
            }
            Style::Quiet => {}
        }
    }

    /// A flow begins.
    pub(super) fn begin(&self, flow: Flow) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}{}", text(flow), self.left_text()));
        }
    }

    /// A flow was measured.
    pub(super) fn done(&mut self, outcome: &Outcome) {
        self.pace.done(outcome);
        match (&self.bar, self.style) {
            (Some(bar), _) => bar.inc(1),
            (None, Style::Json) => self.event(outcome),
            (None, Style::Lines) => {
                let result = outcome.rate().map_or_else(|| time(milliseconds(outcome.fct)), about_rate);
                line(io::stderr(), &format!("{}: {result}{}", text(outcome.flow), self.left_text()));
            }
            (None, _) => {}
        }
    }

    fn event(&self, outcome: &Outcome) {
        let Outcome { flow: Flow { kind: Kind { amount, direction, scheme }, run }, arrived, path, .. } =
            outcome;
        let eta_seconds = self.pace.left().map(|left| left.as_secs_f64());
        let (direction, scheme, bytes) = (*direction, *scheme, arrived.bytes);
        match (amount, outcome.rate()) {
            (Amount::Seconds(_), Some(bits_per_second)) => {
                let seconds = arrived.seconds;
                json(&Event::Bulk { direction, scheme, bytes, seconds, bits_per_second, path, eta_seconds });
            }
            _ => {
                let fct_ms = milliseconds(outcome.fct);
                json(&Event::Flow { direction, scheme, run: *run, bytes, fct_ms, path, eta_seconds });
            }
        }
    }

    fn left_text(&self) -> String {
        let left = self.pace.left().filter(|left| !left.is_zero());
        left.map_or_else(String::new, |left| format!(", {} left", about_time(left)))
    }

    /// All is measured: prints the results to standard output.
    pub fn finish(&mut self, report: &Report) {
        self.clear();
        if self.style != Style::Json {
            output::emit(report.text().trim_end());
            return;
        }
        report.rows().iter().for_each(|row| json(&Event::Result(row)));
        report.bulk().iter().for_each(|bulk| json(&Event::BulkResult(bulk)));
        json(&Event::Done { rtt_ms: milliseconds(report.rtt) });
    }

    /// The command failed: one line and a hint, or an event.
    pub fn error(&mut self, error: &BenchError) {
        self.clear();
        if self.style == Style::Json {
            json(&Event::Error { message: error.to_string(), hint: error.hint() });
        } else {
            output::complain(NAME, error, error.hint());
        }
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn text(Flow { kind: Kind { amount, direction, scheme }, run }: Flow) -> String {
    let (words, scheme) = (direction.words(), scheme.name());
    match amount {
        Amount::Bytes(bytes) => format!("run {run}: {} {words}, {scheme}", about_bytes(bytes)),
        Amount::Seconds(seconds) => format!("bulk for {seconds} s {words}, {scheme}"),
    }
}

fn bar(flows: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(flows), ProgressDrawTarget::stderr_with_hz(10));
    // The template is constant; if it were wrong, the default bar would be used.
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
