//! Progress of a check: a bar on a terminal, a line per part and flow elsewhere, or JSON events.

use rc3_cli::output;
use rc3_text::units::{about_bytes, about_rate, about_time};
use serde::Serialize;

use super::{
    comparison::{Bulk, Comparison, SizeComparison},
    host::HostReport,
    outcome::MeasuredFlow,
    pace::RemainingTime,
    path::PathReport,
    plan::{Amount, CheckPlan, FlowDirection, FlowKind, PlannedFlow},
    report::CheckReport,
};
use crate::{
    cli::usage,
    error::Error,
    figures::PathFigures,
    scheme::Scheme,
    steps::Steps,
    table::{milliseconds, time},
    transfer::progress::{Style, json},
};

/// Events as `--json` prints them. Units are bytes, seconds and bits per second unless named.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum CheckEvent<'a> {
    /// This host was checked.
    Host(&'a HostReport),
    /// The path was probed.
    Path(&'a PathReport),
    /// The listener accepts the plan.
    Start {
        /// The listener's address.
        peer: String,
        /// The smallest round trip so far.
        rtt_ms: f64,
        /// The plan.
        #[serde(flatten)]
        plan: &'a CheckPlan,
        /// Flows of the plan.
        flows: usize,
    },
    /// A flow of a size was measured.
    Flow(FlowFigures<'a>),
    /// A bulk flow was measured.
    Bulk(FlowFigures<'a>),
    /// One size in one direction, by both schemes.
    Result(&'a SizeComparison),
    /// The bulk rates of one direction.
    BulkResult(&'a Bulk),
    /// All is measured.
    Done {
        /// Whether there is no problem that the user could fix.
        healthy: bool,
        /// The smallest round trip of the flows.
        rtt_ms: Option<f64>,
    },
}

/// One measured flow.
#[derive(Debug, Serialize)]
pub struct FlowFigures<'a> {
    direction: FlowDirection,
    scheme: Scheme,
    /// Its run, from 1.
    run: u32,
    /// Bytes that arrived.
    bytes: u64,
    /// The receiver's time for them, from its first packet.
    seconds: f64,
    /// See [`MeasuredFlow::fct`].
    fct_ms: f64,
    /// The rate of a bulk flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    bits_per_second: Option<f64>,
    /// What its sender measured.
    path: &'a PathFigures,
    /// Estimate of the remaining time, once every kind of flow was measured.
    eta_seconds: Option<f64>,
}

/// Prints the progress.
#[derive(Debug)]
pub struct CheckProgress {
    style: Style,
    steps: Steps,
    pace: RemainingTime,
}

impl CheckProgress {
    /// In this style, for these flows.
    pub fn new(style: Style, plan: Option<&CheckPlan>) -> Self {
        let pace = RemainingTime::new(plan);
        Self { style, steps: Steps::new(style, pace.flows() as u64), pace }
    }

    /// Prints an event as JSON, if that is asked for.
    pub(super) fn event(&self, event: &CheckEvent<'_>) {
        if self.style == Style::Json {
            json(event);
        }
    }

    /// A part of the probes begins.
    pub(super) fn print_part(&self, text: &str) {
        self.steps.print_step(text.to_owned());
    }

    /// The listener has accepted the plan.
    pub(super) fn start(&self, comparison: &Comparison) {
        let flows = self.pace.flows();
        let (peer, rtt_ms) = (comparison.peer.to_string(), milliseconds(comparison.rtt));
        self.steps.print_step(format!("{peer}, round trip {}: {flows} flows", time(rtt_ms)));
        self.event(&CheckEvent::Start { peer, rtt_ms, plan: &comparison.plan, flows });
    }

    /// A flow was measured.
    pub(super) fn done(&mut self, outcome: &MeasuredFlow) {
        self.pace.done(outcome);
        let rate = outcome.rate();
        let result = rate.map_or_else(|| time(milliseconds(outcome.fct)), about_rate);
        self.steps.done(format!("{}: {result}{}", text(outcome.flow), self.left_text()));
        let MeasuredFlow {
            flow: PlannedFlow { kind: FlowKind { direction, scheme, .. }, run }, arrived, ..
        } = *outcome;
        let measured = FlowFigures {
            direction,
            scheme,
            run,
            bytes: arrived.bytes,
            seconds: arrived.seconds,
            fct_ms: milliseconds(outcome.fct),
            bits_per_second: rate,
            path: &outcome.path,
            eta_seconds: self.pace.left().map(|left| left.as_secs_f64()),
        };
        self.event(&if rate.is_some() { CheckEvent::Bulk(measured) } else { CheckEvent::Flow(measured) });
    }

    fn left_text(&self) -> String {
        let left = self.pace.left().filter(|left| !left.is_zero());
        left.map_or_else(String::new, |left| format!(", {} left", about_time(left)))
    }

    /// All is measured: prints the results to standard output.
    pub(super) fn finish(&mut self, report: &CheckReport) {
        self.steps.clear();
        if self.style != Style::Json {
            output::emit(report.text().trim_end());
            return;
        }
        if let Some(comparison) = &report.comparison {
            comparison.rows().iter().for_each(|row| json(&CheckEvent::Result(row)));
            comparison.bulk().iter().for_each(|bulk| json(&CheckEvent::BulkResult(bulk)));
        }
        let rtt_ms = report.comparison.as_ref().map(|comparison| milliseconds(comparison.rtt));
        json(&CheckEvent::Done { healthy: report.is_healthy(), rtt_ms });
    }

    /// The command failed: one line and a hint, or an event.
    pub fn error(&mut self, error: &Error) {
        self.steps.clear();
        usage::complain(self.style == Style::Json, error, error.hint());
    }
}

fn text(PlannedFlow { kind: FlowKind { amount, direction, scheme }, run }: PlannedFlow) -> String {
    let (words, scheme) = (direction.words(), scheme.name());
    match amount {
        Amount::Bytes(bytes) => format!("run {run}: {} {words}, {scheme}", about_bytes(bytes)),
        Amount::Seconds(seconds) => format!("bulk for {seconds} s {words}, {scheme}"),
    }
}
