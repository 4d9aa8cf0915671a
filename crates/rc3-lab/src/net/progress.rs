//! How far a run is: a bar on a terminal, lines elsewhere, or JSON.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

/// Lines appear so often at most.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress of a run, measured in the time that its parts should take.
#[derive(Debug)]
pub struct Progress {
    /// Sum of the estimates of all parts.
    whole: Duration,
    /// Sum of those that are done.
    done: Duration,
    began: Instant,
    printed: Option<Instant>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Bar(ProgressBar),
    Lines,
    Json,
}

impl Progress {
    /// Begins a run whose parts should take this long together.
    pub fn new(whole: Duration, json: bool) -> Self {
        let way = match (json, io::stderr().is_terminal()) {
            (true, _) => Way::Json,
            (false, true) => Way::Bar(bar(whole)),
            (false, false) => Way::Lines,
        };
        let progress = Self { whole, done: Duration::ZERO, began: Instant::now(), printed: None, way };
        match progress.way {
            Way::Json => print_json(&json!({ "event": "begin", "estimate_s": whole.as_secs_f64() })),
            _ => say(&format!("about {} to go", minutes(whole))),
        }
        progress
    }

    /// A part begins.
    pub fn begin(&mut self, what: &str) {
        let left = self.left();
        match &self.way {
            Way::Bar(bar) => bar.set_message(format!("{what}, about {} left", minutes(left))),
            Way::Lines if self.printed.is_none_or(|at| at.elapsed() >= LINE_EVERY) => {
                let share = 100.0 * self.done.as_secs_f64() / self.whole.as_secs_f64().max(1e-9);
                say(&format!("{share:3.0} %, about {} left: {what}", minutes(left)));
                self.printed = Some(Instant::now());
            }
            Way::Lines => {}
            Way::Json => {
                let (done, left) = (self.began.elapsed().as_secs_f64(), left.as_secs_f64());
                print_json(&json!({ "event": "session", "what": what, "elapsed_s": done, "left_s": left }));
            }
        }
    }

    /// A part that should take so long is done.
    pub fn end(&mut self, estimate: Duration) {
        self.done += estimate;
        if let Way::Bar(bar) = &self.way {
            bar.set_position(self.done.as_millis() as u64);
        }
    }

    /// Something to know, whatever way progress is shown.
    pub fn note(&self, text: &str) {
        match &self.way {
            Way::Bar(bar) => bar.suspend(|| say(text)),
            Way::Lines => say(text),
            Way::Json => print_json(&json!({ "event": "note", "text": text })),
        }
    }

    /// The run is over; `out` names the folder.
    pub fn finish(self, out: &str) {
        let took = self.began.elapsed();
        if let Way::Bar(bar) = &self.way {
            bar.finish_and_clear();
        }
        match self.way {
            Way::Json => print_json(&json!({ "event": "done", "elapsed_s": took.as_secs_f64(), "out": out })),
            _ => say(&format!("done in {}: {out}/report.md", minutes(took))),
        }
    }

    /// What is left, at the pace so far.
    fn left(&self) -> Duration {
        left(self.whole, self.done, self.began.elapsed())
    }
}

/// What is left if the rest goes at the pace of what is done.
fn left(whole: Duration, done: Duration, elapsed: Duration) -> Duration {
    let rest = whole.saturating_sub(done);
    if done.is_zero() { rest } else { rest.mul_f64(elapsed.as_secs_f64() / done.as_secs_f64()) }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..90 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

fn bar(whole: Duration) -> ProgressBar {
    let draw = ProgressDrawTarget::stderr_with_hz(5);
    let bar = ProgressBar::with_draw_target(Some(whole.as_millis() as u64), draw);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent} %  {wide_msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn print_json(value: &serde_json::Value) {
    let _ = writeln!(io::stdout(), "{value}");
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_goes_at_the_pace_of_what_is_done() {
        let seconds = Duration::from_secs;
        assert_eq!(left(seconds(100), seconds(0), seconds(3)), seconds(100));
        assert_eq!(left(seconds(100), seconds(20), seconds(40)), seconds(160));
        assert_eq!(left(seconds(100), seconds(110), seconds(40)), seconds(0));
        assert_eq!([minutes(seconds(89)), minutes(seconds(100))], ["89 s", "2 min"]);
    }
}
