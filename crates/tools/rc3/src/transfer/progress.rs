//! Progress of a transfer: a bar, plain lines, JSON lines, calls of an [`Observer`], or none.
//!
//! JSON goes to standard output, one event per line; text goes to standard error; an observer gets the events of the
//! JSON lines, and nothing is printed. Invariant: progress lines appear at most once a second, [`Event::Progress`] for an
//! observer at most ten times.

use std::{
    borrow::Cow,
    collections::VecDeque,
    fmt,
    io::{self, IsTerminal, Write},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use kickass::endpoint::Mode;
use rc3_cli::output;
use rc3_net::KickAssStats;
use rc3_text::units::{about_bytes, about_rate, about_time};
use serde::Serialize;

use super::{
    error::TransferError,
    manifest::LeftOut,
    message::Work,
    paths::{SafePath, is_hidden, printable_path},
};
use crate::figures::PathFigures;

/// Most misleading names with their own line.
const MISLEADING_MAX: usize = 10;
/// Time between two progress lines.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// Time between two [`Event::Progress`] for an observer.
const OBSERVED_EVERY: Duration = Duration::from_millis(100);

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A bar on a terminal.
    Bar,
    /// Lines, at most one a second.
    Lines,
    /// One JSON event per line on standard output.
    Json,
    /// Only errors.
    Quiet,
}

impl Style {
    /// The form that the flags and the terminal require.
    pub fn choose(json: bool, quiet: bool) -> Self {
        match (json, quiet) {
            (true, _) => Self::Json,
            (false, true) => Self::Quiet,
            (false, false) if io::stderr().is_terminal() => Self::Bar,
            (false, false) => Self::Lines,
        }
    }
}

/// Events as `--json` prints them. Units are bytes, seconds and bytes per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// A receiver waits for a sender with this ticket.
    Listening {
        /// The line to pass to the sender, unless it is in a file.
        #[serde(skip_serializing_if = "Option::is_none")]
        ticket: Option<&'a str>,
        /// The file that holds it.
        #[serde(skip_serializing_if = "Option::is_none")]
        ticket_file: Option<String>,
    },
    /// A skipped entry.
    Skipped {
        /// Its path; for a directory, everything in it is skipped.
        path: Cow<'a, str>,
        /// The reason.
        reason: String,
    },
    /// A file that exists at the receiver with other content, and was not replaced.
    Conflict {
        /// Its path below the destination.
        path: Cow<'a, str>,
    },
    /// A file that is not kept because the received content differs from the sent content.
    Damaged {
        /// Its path below the destination.
        path: Cow<'a, str>,
    },
    /// In a dry run: what would happen to an entry.
    Would {
        /// Its path below the destination; bytes that are not UTF-8 are replaced by U+FFFD.
        path: Cow<'a, str>,
        /// `send`, `continue`, `same`, `replace`, `keep-both`, `conflict`, `left-out`, or `directory`.
        action: &'a str,
    },
    /// The receiver has no free slot.
    Retrying {
        /// Time until the next try.
        seconds: f64,
    },
    /// The receiver is busy with other work than this transfer's bytes.
    Waiting {
        /// `another_transfer`, `comparing` or `storing`.
        receiver: &'a str,
    },
    /// A name that can mislead a reader will arrive.
    Misleading {
        /// Its path below the destination, unescaped.
        path: String,
    },
    /// Both sides agree on what to send.
    Start {
        /// Files, without directories.
        files: usize,
        /// Their total bytes.
        bytes: u64,
        /// The other side's address.
        peer: String,
        /// Whether the RLP loop runs.
        rc3: bool,
    },
    /// Progress.
    Progress {
        /// Bytes so far.
        bytes: u64,
        /// Total bytes.
        total_bytes: u64,
        /// Files in place so far.
        files: usize,
        /// Total files.
        total_files: usize,
        /// Rate of the last seconds.
        bytes_per_second: f64,
        /// Remaining time at that rate.
        eta_seconds: Option<f64>,
        /// State of a sender that follows signalled rates.
        #[serde(flatten)]
        steered: Option<Steered>,
    },
    /// A file is verified and in place.
    File {
        /// Its path below the destination; bytes that are not UTF-8 are replaced by U+FFFD.
        path: Cow<'a, str>,
        /// Its length.
        bytes: u64,
    },
    /// Everything is verified and in place.
    Done(Summary),
    /// The command failed.
    Error {
        /// The error.
        message: String,
        /// What the user can do.
        hint: &'a str,
    },
}

/// Current state of a sender that follows signalled rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Steered {
    /// `kickass` or `tcp`.
    pub mode: &'static str,
    /// The last signalled rate, IP headers included.
    pub signalled_bits_per_second: Option<u64>,
    /// How often it has entered Kick-Ass mode.
    pub switches: u64,
}

impl From<KickAssStats> for Steered {
    fn from(stats: KickAssStats) -> Self {
        let mode = match stats.mode {
            Mode::KickAss => "kickass",
            Mode::Tcp(_) => "tcp",
        };
        let signalled_bits_per_second = stats.rate.map(|rate| rate.bits_per_second());
        Self { mode, signalled_bits_per_second, switches: stats.switches.to_kickass }
    }
}

/// Summary of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Files in place, without directories.
    pub files: usize,
    /// Files that already existed with the same content.
    pub unchanged_files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// From the agreement on what to send to the last file in place.
    pub seconds: f64,
    /// Mean rate over that time.
    pub bytes_per_second: f64,
    /// Bytes that the primary loop brought first, including the control stream, as counted by the receiver. At a
    /// sender: bytes given to the primary.
    pub primary_bytes: u64,
    /// Bytes by RLP level, level 1 first: at the receiver those that RLP brought first, at the sender those SACKed.
    pub rlp_bytes: Vec<u64>,
    /// Bytes sent (sender) or received (receiver) twice.
    pub duplicate_bytes: u64,
    /// Time a sender spent in Kick-Ass mode, if it follows signalled rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steered_seconds: Option<f64>,
    /// What a sender measured of its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathFigures>,
}

/// Gets the events of a transfer, on the task that carries it out.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(&Event<'_>) + Send + Sync>);

impl Observer {
    /// Calls `observe` for each event. The transfer waits meanwhile.
    pub fn new(observe: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observe))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Reports the progress of one side.
#[derive(Debug)]
pub struct Reporter {
    style: Style,
    /// Gets the events instead of standard output; the style is [`Style::Json`].
    observer: Option<Observer>,
    verb: &'static str,
    bars: MultiProgress,
    bar: Option<ProgressBar>,
    started: Instant,
    line_at: Instant,
    total: u64,
    files: usize,
    /// Bytes of the files in place.
    placed_bytes: u64,
    total_files: usize,
    recent: Recent,
    /// The receiver's activity, as printed last.
    waiting: Option<Work>,
    /// The signalled state, for senders that follow it.
    pub steered: Option<Steered>,
}

impl Reporter {
    /// `verb` is what this side does: `sending` or `receiving`.
    pub fn new(style: Style, verb: &'static str) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        Self::beside(style, None, verb, bars)
    }

    /// For programs: `observer` gets all events, and nothing is printed.
    pub fn observed(observer: Observer) -> Self {
        Self::beside(Style::Json, Some(observer), "", MultiProgress::new())
    }

    /// One for another transfer of the same side.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::beside(self.style, self.observer.clone(), self.verb, self.bars.clone())
    }

    fn beside(style: Style, observer: Option<Observer>, verb: &'static str, bars: MultiProgress) -> Self {
        let now = Instant::now();
        Self {
            style,
            observer,
            verb,
            bars,
            bar: None,
            started: now,
            line_at: now,
            total: 0,
            files: 0,
            placed_bytes: 0,
            total_files: 0,
            recent: Recent::default(),
            waiting: None,
            steered: None,
        }
    }

    /// The form of the output.
    pub fn style(&self) -> Style {
        self.style
    }

    /// The receiver is ready. It prints the ticket to standard output, even if quiet.
    ///
    /// # Errors
    /// When standard output does not take it: then nobody can send.
    pub fn listening(&self, ticket: &str) -> io::Result<()> {
        match self.style {
            Style::Json => self.emit(&Event::Listening { ticket: Some(ticket), ticket_file: None }),
            Style::Quiet => output::emit(ticket),
            Style::Bar | Style::Lines => {
                line(io::stderr(), "on the other machine: rc3 send PATH... -, then paste this ticket:");
                output::emit(ticket);
            }
        }
        output::finish()
    }

    /// The receiver is ready; its ticket is in a file.
    pub fn listening_by_file(&self, path: &Path) {
        let ticket_file = printable_path(path);
        match self.style {
            Style::Json => self.emit(&Event::Listening { ticket: None, ticket_file: Some(ticket_file) }),
            _ => self.note(&format!(
                "the ticket is in {ticket_file}; on the other machine: \
                                     rc3 send --ticket-file {ticket_file} PATH..."
            )),
        }
    }

    /// A line for users, not needed by programs.
    pub fn note(&self, text: &str) {
        if matches!(self.style, Style::Bar | Style::Lines) {
            self.print(text);
        }
    }

    /// An entry does not leave the sender.
    pub fn left_out(&self, left_out: &LeftOut) {
        match self.style {
            Style::Json => self.emit(&Event::Skipped {
                path: left_out.path.to_string_lossy(),
                reason: left_out.reason.to_string(),
            }),
            _ => self.note(&format!("left out: {left_out}")),
        }
    }

    /// The receiver does not create an entry.
    pub fn skipped(&self, path: &SafePath, reason: &str) {
        match self.style {
            Style::Json => self.emit(&Event::Skipped { path: lossy(path), reason: reason.to_owned() }),
            _ => self.note(&format!("left out: {path} ({reason})")),
        }
    }

    /// A file exists at the receiver with other content.
    pub fn conflict(&self, path: &SafePath) {
        match self.style {
            Style::Json => self.emit(&Event::Conflict { path: lossy(path) }),
            _ => self.print(&format!("conflict: {path} exists at the receiver with other content")),
        }
    }

    /// A file arrived damaged.
    pub fn damaged(&self, path: &SafePath) {
        match self.style {
            Style::Json => self.emit(&Event::Damaged { path: lossy(path) }),
            _ => self.print(&format!("damaged: {path}")),
        }
    }

    /// The end of a dry run.
    pub fn would_send(&self, files: usize, bytes: u64) {
        self.note(&format!("would send {} in {}", about_bytes(bytes), count(files, "file")));
    }

    /// The receiver is busy; the next try follows after a pause.
    pub fn retrying(&self, pause: Duration) {
        match self.style {
            Style::Json => self.emit(&Event::Retrying { seconds: pause.as_secs_f64() }),
            _ => self.note(&format!("the receiver is busy, retrying in {}", about_time(pause))),
        }
    }

    /// The receiver reports that it is working; may be called at any rate.
    pub fn waiting(&mut self, work: Work) {
        if self.waiting.replace(work) == Some(work) {
            return;
        }
        let (receiver, text) = match work {
            Work::AnotherTransfer => {
                ("another_transfer", "waiting: the receiver is busy with another transfer")
            }
            Work::Comparing => ("comparing", "waiting: the receiver is comparing existing files"),
            Work::Storing => ("storing", "waiting: the receiver is storing what arrived"),
        };
        match self.style {
            Style::Json => self.emit(&Event::Waiting { receiver }),
            _ => self.note(text),
        }
    }

    /// Names that can mislead a reader will arrive.
    pub fn misleading(&self, paths: &[SafePath]) {
        if self.style == Style::Json {
            for path in paths {
                self.emit(&Event::Misleading { path: String::from_utf8_lossy(path.as_bytes()).into_owned() });
            }
            return;
        }
        for path in paths.iter().take(MISLEADING_MAX) {
            self.note(&format!("warning: a name with hidden characters: {path}"));
        }
        if let Some(more) = paths.len().checked_sub(MISLEADING_MAX).filter(|&more| more > 0) {
            self.note(&format!("warning: {} more with hidden characters", count(more, "name")));
        }
    }

    /// Both sides agree.
    pub fn start(&mut self, files: usize, bytes: u64, peer: &str, rc3: bool) {
        self.started = Instant::now();
        self.line_at = self.started;
        (self.total, self.total_files, self.files, self.placed_bytes) = (bytes, files, 0, 0);
        self.recent = Recent::default();
        let loops = if rc3 { "rc3" } else { "plain QUIC" };
        match self.style {
            Style::Json => self.emit(&Event::Start { files, bytes, peer: peer.to_owned(), rc3 }),
            Style::Quiet => {}
            Style::Lines | Style::Bar => self.print(&format!(
                "{} {} in {}, {peer}, {loops}",
                self.verb,
                about_bytes(bytes),
                count(files, "file"),
            )),
        }
        if self.style == Style::Bar {
            self.bar = Some(self.bars.add(bar(bytes)));
        }
    }

    /// Reports progress; may be called at any rate.
    pub fn progress(&mut self, bytes: u64) {
        let now = Instant::now();
        self.recent.add(now.duration_since(self.started), bytes);
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
            bar.set_message(self.summary(bytes));
            return;
        }
        let every = if self.observer.is_some() { OBSERVED_EVERY } else { LINE_EVERY };
        if matches!(self.style, Style::Quiet | Style::Bar) || now.duration_since(self.line_at) < every {
            return;
        }
        self.line_at = now;
        if self.style == Style::Json {
            self.emit(&Event::Progress {
                bytes,
                total_bytes: self.total,
                files: self.files,
                total_files: self.total_files,
                bytes_per_second: self.recent.rate(),
                eta_seconds: self.remaining(bytes).map(|time| time.as_secs_f64()),
                steered: self.steered,
            });
            return;
        }
        let percent = 100 * u128::from(bytes) / u128::from(self.total.max(1));
        let mode = self.steered.map_or(String::new(), |steered| format!(", {} mode", steered.mode));
        self.print(&format!("{percent} %, {}{mode}", self.summary(bytes)));
    }

    /// Bytes, files, the rate of the last seconds, and the remaining time.
    fn summary(&self, bytes: u64) -> String {
        let eta = self.remaining(bytes).map_or(String::new(), |eta| format!(", {} left", about_time(eta)));
        format!(
            "{} of {}, {} of {}, {}{eta}",
            about_bytes(bytes),
            about_bytes(self.total),
            self.files,
            count(self.total_files, "file"),
            about_rate(self.recent.rate() * 8.0),
        )
    }

    /// At the rate of the last seconds.
    fn remaining(&self, bytes: u64) -> Option<Duration> {
        let left = self.total.saturating_sub(bytes) as f64;
        Duration::try_from_secs_f64(left / self.recent.rate()).ok()
    }

    /// Files that exist already, and their bytes.
    pub fn files_there(&mut self, files: usize, bytes: u64) {
        self.files += files;
        self.placed_bytes += bytes;
    }

    /// The files in place so far, and their bytes.
    pub fn in_place(&self) -> (usize, u64) {
        (self.files, self.placed_bytes)
    }

    /// A file is in place.
    pub fn file(&mut self, path: &SafePath, bytes: u64) {
        self.files += 1;
        self.placed_bytes += bytes;
        if self.style == Style::Json {
            self.emit(&Event::File { path: lossy(path), bytes });
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
            self.emit(&Event::Done(summary));
            return;
        }
        let rlp: u64 = summary.rlp_bytes.iter().sum();
        let share = if rlp == 0 { String::new() } else { format!(", {} of them by RLP", about_bytes(rlp)) };
        let steered = summary.steered_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let mode = steered.map_or(String::new(), |time| format!(", {} in Kick-Ass mode", about_time(time)));
        let there = match summary.unchanged_files {
            0 => String::new(),
            unchanged => format!(" ({unchanged} of them unchanged)"),
        };
        self.note(&format!(
            "verified: {}{there}, {} in {}, {}{share}{mode}",
            count(summary.files, "file"),
            about_bytes(summary.bytes),
            about_time(Duration::try_from_secs_f64(summary.seconds).unwrap_or_default()),
            about_rate(summary.bytes_per_second * 8.0),
        ));
        if let Some(path) = summary.path.filter(|path| path.rate_bits_per_second.is_some()) {
            self.note(&path.brief());
        }
    }

    /// The transfer failed: one line and a hint, in every style.
    pub fn error(&mut self, error: &TransferError) {
        self.failure(error, error.hint());
    }

    /// The command failed: one line and a hint, in every style.
    pub fn failure(&mut self, error: &dyn std::fmt::Display, hint: &str) {
        self.clear();
        if self.style == Style::Json {
            self.emit(&Event::Error { message: error.to_string(), hint });
            return;
        }
        self.print(&format!("rc3: {error}\nhint: {hint}"));
    }

    /// Passes an event on, in the style for programs.
    pub(super) fn emit(&self, event: &Event<'_>) {
        match &self.observer {
            Some(Observer(observe)) => observe(event),
            None => json(event),
        }
    }

    /// Removes the bar.
    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn print(&self, text: &str) {
        self.bars.suspend(|| line(io::stderr(), text));
    }
}

/// A path in JSON: bytes that are not UTF-8 are replaced by U+FFFD.
fn lossy(path: &SafePath) -> Cow<'_, str> {
    String::from_utf8_lossy(path.as_bytes())
}

/// `1 file`, `2 files`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The rate of the last seconds.
#[derive(Debug, Default)]
struct Recent {
    /// Times since the start, and bytes so far.
    samples: VecDeque<(Duration, u64)>,
}

impl Recent {
    /// The time over which the rate is taken.
    const WINDOW: Duration = Duration::from_secs(5);
    /// Time between two samples.
    const EVERY: Duration = Duration::from_millis(100);

    fn add(&mut self, at: Duration, bytes: u64) {
        if self.samples.back().is_some_and(|(last, _)| at < *last + Self::EVERY) {
            return;
        }
        self.samples.push_back((at, bytes));
        // One sample from before the window.
        while self.samples.get(1).is_some_and(|(second, _)| *second + Self::WINDOW <= at) {
            self.samples.pop_front();
        }
    }

    /// Bytes per second.
    fn rate(&self) -> f64 {
        match (self.samples.front(), self.samples.back()) {
            (Some((from, before)), Some((to, bytes))) if to > from => {
                bytes.saturating_sub(*before) as f64 / (*to - *from).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}

fn bar(bytes: u64) -> ProgressBar {
    // Drawn where the other bars are.
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
    let template = "{bar:20} {percent:>3} %  {msg}";
    // The template is constant; if it were wrong, the default bar would be used.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Prints one event.
pub(crate) fn json(event: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(event) {
        output::emit(escaped(&text));
    }
}

/// JSON with the same meaning, safe for a terminal: only strings contain control or hidden characters.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() || is_hidden(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text += &format!("\\u{unit:04x}"));
        } else {
            text.push(c);
        }
    }
    text
}

/// Prints one line for the user, who may have closed standard error. Results go to [`output::emit`].
pub(crate) fn line(mut to: impl Write, text: &str) {
    let _ = writeln!(to, "{text}").and_then(|()| to.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_flat_objects_named_by_their_event() {
        let text = serde_json::to_string(&Event::File { path: "a".into(), bytes: 5 }).unwrap();
        assert_eq!(text, r#"{"event":"file","path":"a","bytes":5}"#);
        let summary = Summary {
            files: 1,
            unchanged_files: 0,
            bytes: 5,
            seconds: 0.5,
            bytes_per_second: 10.0,
            primary_bytes: 2,
            rlp_bytes: vec![3],
            duplicate_bytes: 0,
            steered_seconds: None,
            path: None,
        };
        let text = serde_json::to_string(&Event::Done(summary)).unwrap();
        assert!(
            text.starts_with(r#"{"event":"done","files":1,"unchanged_files":0,"bytes":5,"seconds":0.5,"#),
            "{text}"
        );
    }

    #[test]
    fn rate_is_that_of_the_last_seconds() {
        let mut recent = Recent::default();
        assert_eq!(recent.rate(), 0.0);
        // A slow minute, then a fast one.
        for tenth in 0..=1200_u64 {
            let fast = tenth.saturating_sub(600);
            recent.add(Duration::from_millis(100 * tenth), 10 * tenth + 990 * fast);
            assert!(recent.samples.len() <= 52);
            let rate = recent.rate();
            match tenth {
                1..=600 => assert!((99.0..101.0).contains(&rate), "{rate}"),
                660.. => assert!((9990.0..10_010.0).contains(&rate), "{rate}"),
                _ => {}
            }
        }
    }

    #[test]
    fn json_for_a_terminal_means_the_same() {
        let path = "gpj\u{202e}\u{9b}2J\u{7f}\u{1b}\u{e0041}ä \u{fffd}";
        let text = serde_json::to_string(&Event::File { path: path.into(), bytes: 5 }).unwrap();
        let shown = escaped(&text);
        assert!(!shown.contains(|c: char| c.is_control() || is_hidden(c)), "{shown:?}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read["path"], path);
    }

    #[test]
    fn flags_win_over_the_terminal() {
        assert_eq!(Style::choose(true, false), Style::Json);
        assert_eq!(Style::choose(false, true), Style::Quiet);
    }
}
