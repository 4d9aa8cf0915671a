//! How a transfer is told: a bar, plain lines, JSON lines, or not at all.
//!
//! JSON goes to standard output, one event per line; what is for people goes to standard error. Invariant:
//! lines of progress come at most once a second, whoever reads them.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kickass::endpoint::Mode;
use rc3_net::KickAssStats;
use serde::Serialize;

use super::{error::TransferError, paths::printable};
use crate::units::{about_bytes, about_rate, about_time};

/// Between two lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// How to tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A bar on a terminal.
    Bar,
    /// Lines, at most one a second.
    Lines,
    /// One JSON event per line on standard output.
    Json,
    /// Nothing but errors.
    Quiet,
}

impl Style {
    /// What the flags and the terminal ask for.
    pub fn choose(json: bool, quiet: bool) -> Self {
        match (json, quiet) {
            (true, _) => Self::Json,
            (false, true) => Self::Quiet,
            (false, false) if io::stderr().is_terminal() => Self::Bar,
            (false, false) => Self::Lines,
        }
    }
}

/// What happens, as `--json` shows it. Bytes, seconds and bytes per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// A receiver waits for a sender with this ticket.
    Listening {
        /// The line to give to the sender.
        ticket: &'a str,
    },
    /// Something that is not sent.
    Skipped {
        /// A link, pipe, device or socket.
        path: String,
    },
    /// Both sides agree on what is sent.
    Start {
        /// Files, without directories.
        files: usize,
        /// Bytes of all of them.
        bytes: u64,
        /// The other side's address.
        peer: String,
        /// Whether the RLP loop runs.
        rc3: bool,
    },
    /// How far it is.
    Progress {
        /// Bytes so far.
        bytes: u64,
        /// Bytes in the end.
        total_bytes: u64,
        /// Mean rate so far.
        bytes_per_second: f64,
        /// How much longer at that rate.
        eta_seconds: Option<f64>,
        /// What routers say, of a sender that listens to them.
        #[serde(flatten)]
        steered: Option<Steered>,
    },
    /// A file is verified and in place.
    File {
        /// Its path below the destination.
        path: &'a str,
        /// Its length.
        bytes: u64,
    },
    /// Everything is verified and in place.
    Done(Summary),
    /// Nothing more happens.
    Error {
        /// What.
        message: String,
        /// What to do about it.
        hint: &'a str,
    },
}

/// A sender that follows the rates routers tell, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Steered {
    /// `kickass` or `tcp`.
    pub mode: &'static str,
    /// The rate told last, IP headers included.
    pub told_bits_per_second: Option<u64>,
    /// How often it has gone into Kick-Ass mode.
    pub switches: u64,
}

impl From<KickAssStats> for Steered {
    fn from(stats: KickAssStats) -> Self {
        let mode = match stats.mode {
            Mode::KickAss => "kickass",
            Mode::Tcp(_) => "tcp",
        };
        let told_bits_per_second = stats.rate.map(|rate| rate.bits_per_second());
        Self { mode, told_bits_per_second, switches: stats.switches.to_kickass }
    }
}

/// A whole transfer in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Files, without directories.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// From the agreement on what is sent to the last file in place.
    pub seconds: f64,
    /// Over that time.
    pub bytes_per_second: f64,
    /// Bytes that came first by the primary loop, the conversation included: the receiver's count. A sender
    /// says how many it gave to the primary.
    pub primary_bytes: u64,
    /// Bytes by RLP level, level 1 first: at the receiver those that came first by RLP, at the sender those
    /// SACKed.
    pub rlp_bytes: Vec<u64>,
    /// Bytes that went (sender) or came (receiver) twice.
    pub duplicate_bytes: u64,
    /// Time a sender spent in Kick-Ass mode, if it listens to routers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steered_seconds: Option<f64>,
}

/// Tells one side of a transfer.
#[derive(Debug)]
pub struct Reporter {
    style: Style,
    verb: &'static str,
    bar: Option<ProgressBar>,
    started: Instant,
    line_at: Instant,
    total: u64,
    /// What routers say, for those who follow them.
    pub steered: Option<Steered>,
}

impl Reporter {
    /// `verb` says what this side does: `sending` or `receiving`.
    pub fn new(style: Style, verb: &'static str) -> Self {
        let now = Instant::now();
        Self { style, verb, bar: None, started: now, line_at: now, total: 0, steered: None }
    }

    /// A receiver waits. The ticket is for the other side: even a quiet receiver prints it, to standard
    /// output.
    pub fn listening(&self, ticket: &str) {
        match self.style {
            Style::Json => json(&Event::Listening { ticket }),
            Style::Quiet => line(io::stdout(), ticket),
            Style::Bar | Style::Lines => {
                line(io::stderr(), "on the other machine: rc3 send PATH... TICKET, with this ticket:");
                line(io::stdout(), ticket);
            }
        }
    }

    /// Something for people, that no program needs.
    pub fn note(&self, text: &str) {
        if matches!(self.style, Style::Bar | Style::Lines) {
            self.print(text);
        }
    }

    /// A file is left out.
    pub fn skipped(&self, path: &Path) {
        let path = printable(&path.to_string_lossy());
        match self.style {
            Style::Json => json(&Event::Skipped { path }),
            _ => self.note(&format!("left out: {path} (links, pipes, devices and sockets are not sent)")),
        }
    }

    /// Both sides agree.
    pub fn start(&mut self, files: usize, bytes: u64, peer: &str, rc3: bool) {
        self.started = Instant::now();
        self.line_at = self.started;
        self.total = bytes;
        let loops = if rc3 { "rc3" } else { "plain QUIC" };
        match self.style {
            Style::Json => json(&Event::Start { files, bytes, peer: peer.to_owned(), rc3 }),
            Style::Quiet => {}
            Style::Lines | Style::Bar => self.print(&format!(
                "{} {} in {}, {peer}, {loops}",
                self.verb,
                about_bytes(bytes),
                count(files, "file"),
            )),
        }
        if self.style == Style::Bar {
            self.bar = Some(bar(bytes));
        }
    }

    /// How far it is; call it as often as you like.
    pub fn progress(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
            return;
        }
        let now = Instant::now();
        if matches!(self.style, Style::Quiet | Style::Bar) || now.duration_since(self.line_at) < LINE_EVERY {
            return;
        }
        self.line_at = now;
        let rate = bytes as f64 / now.duration_since(self.started).as_secs_f64().max(1e-9);
        let left = self.total.saturating_sub(bytes) as f64;
        let eta_seconds = (bytes > 0).then(|| left / rate);
        if self.style == Style::Json {
            let (total_bytes, steered) = (self.total, self.steered);
            json(&Event::Progress { bytes, total_bytes, bytes_per_second: rate, eta_seconds, steered });
            return;
        }
        let percent = 100 * u128::from(bytes) / u128::from(self.total.max(1));
        let eta = eta_seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .map_or(String::new(), |eta| format!(", {} left", about_time(eta)));
        let mode = self.steered.map_or(String::new(), |steered| format!(", {} mode", steered.mode));
        self.print(&format!(
            "{percent} %, {} of {}, {}{eta}{mode}",
            about_bytes(bytes),
            about_bytes(self.total),
            about_rate(rate * 8.0),
        ));
    }

    /// A file is in place.
    pub fn file(&self, path: &str, bytes: u64) {
        if self.style == Style::Json {
            json(&Event::File { path, bytes });
        }
    }

    /// Seconds since the start.
    pub fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Everything is in place.
    pub fn done(&mut self, summary: Summary) {
        self.clear();
        if self.style == Style::Json {
            json(&Event::Done(summary));
            return;
        }
        let rlp: u64 = summary.rlp_bytes.iter().sum();
        let share = if rlp == 0 { String::new() } else { format!(", {} of them by RLP", about_bytes(rlp)) };
        let steered = summary.steered_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let mode = steered.map_or(String::new(), |time| format!(", {} in Kick-Ass mode", about_time(time)));
        self.note(&format!(
            "verified: {}, {} in {}, {}{share}{mode}",
            count(summary.files, "file"),
            about_bytes(summary.bytes),
            about_time(Duration::try_from_secs_f64(summary.seconds).unwrap_or_default()),
            about_rate(summary.bytes_per_second * 8.0),
        ));
    }

    /// It ended too early: one line and a hint, whatever the style.
    pub fn error(&mut self, error: &TransferError) {
        self.clear();
        if self.style == Style::Json {
            json(&Event::Error { message: error.to_string(), hint: error.hint() });
            return;
        }
        line(io::stderr(), &format!("rc3: {error}"));
        line(io::stderr(), &format!("hint: {}", error.hint()));
    }

    /// Takes the bar away.
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn print(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| line(io::stderr(), text)),
            None => line(io::stderr(), text),
        }
    }
}

/// `1 file`, `2 files`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr_with_hz(10));
    let template = "{bar:30} {percent:>3} %  {decimal_bytes} of {decimal_total_bytes}  \
                    {decimal_bytes_per_sec}  {eta} left";
    // The template is ours; were it wrong, the default bar would do.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn json(event: &Event<'_>) {
    if let Ok(text) = serde_json::to_string(event) {
        line(io::stdout(), &text);
    }
}

/// One line, at once: the other end may be a pipe. A reader that went away ends nothing.
fn line(mut to: impl Write, text: &str) {
    let _ = writeln!(to, "{text}").and_then(|()| to.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_flat_objects_named_by_their_event() {
        let text = serde_json::to_string(&Event::File { path: "a", bytes: 5 }).unwrap();
        assert_eq!(text, r#"{"event":"file","path":"a","bytes":5}"#);
        let summary = Summary {
            files: 1,
            bytes: 5,
            seconds: 0.5,
            bytes_per_second: 10.0,
            primary_bytes: 2,
            rlp_bytes: vec![3],
            duplicate_bytes: 0,
            steered_seconds: None,
        };
        let text = serde_json::to_string(&Event::Done(summary)).unwrap();
        assert!(text.starts_with(r#"{"event":"done","files":1,"bytes":5,"seconds":0.5,"#), "{text}");
    }

    #[test]
    fn flags_win_over_the_terminal() {
        assert_eq!(Style::choose(true, false), Style::Json);
        assert_eq!(Style::choose(false, true), Style::Quiet);
    }
}
