//! Progress of a stream of unknown length, on standard error; for a sender with `--json`, on standard output.

use std::{
    io,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rc3_text::units::{about_bytes, about_rate, about_time};
use serde::Serialize;

use super::super::progress::{Style, json, line};

/// Time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Events as `--json` prints them. Units are bytes, seconds and bytes per second.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Start { peer: &'a str, rc3: bool },
    Progress { bytes: u64, bytes_per_second: f64 },
    Done { bytes: u64, seconds: f64, bytes_per_second: f64 },
}

/// Prints the progress of one side.
pub(super) struct Progress {
    style: Style,
    bar: Option<ProgressBar>,
    started: Instant,
    line_at: Instant,
    /// Bytes so far.
    pub(super) bytes: u64,
}

impl Progress {
    /// The transfer begins; `verb` is what this side does.
    pub(super) fn start(style: Style, verb: &str, peer: &str, rc3: bool) -> Self {
        let now = Instant::now();
        let loops = if rc3 { "rc3" } else { "plain QUIC" };
        match style {
            Style::Json => json(&Event::Start { peer, rc3 }),
            Style::Quiet => {}
            Style::Bar | Style::Lines => line(io::stderr(), &format!("{verb} a pipe, {peer}, {loops}")),
        }
        let bar = (style == Style::Bar).then(spinner);
        Self { style, bar, started: now, line_at: now, bytes: 0 }
    }

    /// May be called at any rate.
    pub(super) fn show(&mut self) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.bytes);
            return;
        }
        if self.style == Style::Quiet || self.line_at.elapsed() < LINE_EVERY {
            return;
        }
        self.line_at = Instant::now();
        let (bytes, bytes_per_second) = (self.bytes, self.rate());
        match self.style {
            Style::Json => json(&Event::Progress { bytes, bytes_per_second }),
            _ => {
                line(io::stderr(), &format!("{}, {}", about_bytes(bytes), about_rate(bytes_per_second * 8.0)))
            }
        }
    }

    /// Everything arrived.
    pub(super) fn done(&mut self) {
        self.clear();
        let (bytes, seconds, bytes_per_second) = (self.bytes, self.seconds(), self.rate());
        match self.style {
            Style::Json => json(&Event::Done { bytes, seconds, bytes_per_second }),
            Style::Quiet => {}
            Style::Bar | Style::Lines => line(
                io::stderr(),
                &format!(
                    "verified: {} in {}, {}",
                    about_bytes(bytes),
                    about_time(self.started.elapsed()),
                    about_rate(bytes_per_second * 8.0)
                ),
            ),
        }
    }

    fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds().max(1e-9)
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    // The template is constant; if it were wrong, the default would be used.
    if let Ok(style) = ProgressStyle::with_template("{decimal_bytes}  {decimal_bytes_per_sec}  {elapsed}") {
        bar.set_style(style);
    }
    bar
}
