//! Progress of a transfer: a bar, plain lines, JSON lines, calls of an [`Observer`], or none.
//!
//! JSON goes to standard output, one event per line; text goes to standard error; an observer gets the events of the
//! JSON lines, and nothing is printed. Invariant: progress lines appear at most once a second, [`Event::Progress`] for an
//! observer at most ten times.

use std::{
    fmt,
    io::{self, IsTerminal},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use kickass::endpoint::Mode;
use metrics::counter;
use rc3_cli::output;
use rc3_net::{Connection, KickAssStats};
use rc3_text::units::{about_bytes, about_rate, about_time};
use serde::{Serialize, Serializer};

use super::{
    manifest::{LeftOut, SourceEntry},
    message::{Kind, Work},
    paths::{SafePath, is_hidden, printable_bytes, printable_path},
};
use crate::{error::Error, figures::PathFigures, log, notify};

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

/// A path as users see it: in JSON, bytes that are not UTF-8 are replaced by U+FFFD; as text they are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<'a>(&'a [u8]);

impl<'a> From<&'a SafePath> for Name<'a> {
    fn from(path: &'a SafePath) -> Self {
        Self(path.as_bytes())
    }
}

impl Serialize for Name<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(self.0))
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable_bytes(self.0))
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
        path: Name<'a>,
        /// The reason.
        reason: String,
    },
    /// What is not kept of files and directories.
    Dropped {
        /// Of how many.
        files: usize,
        /// What.
        what: &'static str,
        /// The option that keeps it, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        option: Option<&'static str>,
    },
    /// A file that exists at the receiver with other content, and was not replaced.
    Conflict {
        /// Its path below the destination.
        path: Name<'a>,
    },
    /// A file that is not kept because the received content differs from the sent content.
    Damaged {
        /// Its path below the destination.
        path: Name<'a>,
    },
    /// In a dry run: what would happen to an entry.
    Would {
        /// Its path below the destination.
        path: Name<'a>,
        /// `send`, `continue`, `same`, `replace`, `keep-both`, `conflict`, `left-out`, or `directory`.
        action: &'a str,
    },
    /// There is no connection now.
    Retrying {
        /// Why.
        reason: String,
        /// Time until the next try.
        seconds: f64,
    },
    /// The other side answers nothing: there is no path, or it is not there.
    Silent {
        /// Since then.
        seconds: f64,
    },
    /// The receiver is busy with other work than this transfer's bytes.
    Waiting {
        /// What it does.
        receiver: Work,
    },
    /// A name that can mislead a reader will arrive.
    Misleading {
        /// Its path below the destination, unescaped.
        path: Name<'a>,
    },
    /// Both sides agree on what to send.
    Start {
        /// Files, without directories.
        files: usize,
        /// Their total bytes; unknown of a pipe.
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// The other side's address.
        peer: String,
        /// Whether the RLP loop runs.
        rc3: bool,
    },
    /// Progress.
    Progress {
        /// Bytes so far.
        bytes: u64,
        /// Total bytes; unknown of a pipe.
        #[serde(skip_serializing_if = "Option::is_none")]
        total_bytes: Option<u64>,
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
        /// Its path below the destination.
        path: Name<'a>,
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

impl Event<'_> {
    /// Whether users want to read it even if they want only errors.
    fn is_error(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Damaged { .. } | Self::Error { .. })
    }

    /// The text for users.
    fn text(&self, verb: &str) -> Option<String> {
        Some(match self {
            Self::Listening { .. } | Self::Would { .. } | Self::File { .. } => return None,
            Self::Skipped { path, reason } => format!("left out: {path} ({reason})"),
            Self::Dropped { files, what, option } => {
                let advice = option.map(|option| format!("; use {option} on both sides")).unwrap_or_default();
                format!("not kept: {what} of {}{advice}", count(*files, "file"))
            }
            Self::Conflict { path } => format!("conflict: {path} exists at the receiver with other content"),
            Self::Damaged { path } => format!("damaged: {path}"),
            Self::Retrying { reason, seconds } => {
                format!("{reason}; trying again in {}", time_text(*seconds))
            }
            Self::Waiting { receiver } => {
                let doing = match receiver {
                    Work::AnotherTransfer => "busy with another transfer",
                    Work::Comparing => "comparing existing files",
                    Work::Storing => "storing what arrived",
                };
                format!("waiting: the receiver is {doing}")
            }
            Self::Silent { seconds } => {
                format!("no answer for {}; it goes on when the path is back", time_text(*seconds))
            }
            Self::Misleading { path } => format!("warning: a name with hidden characters: {path}"),
            Self::Start { files, bytes, peer, rc3 } => {
                let what = match bytes {
                    Some(bytes) => format!("{} in {}", about_bytes(*bytes), count(*files, "file")),
                    None => "a pipe".to_owned(),
                };
                let loops = if *rc3 { "rc3" } else { "plain QUIC" };
                format!("{verb} {what}, {peer}, {loops}")
            }
            Self::Progress { .. } => self.progress_parts().join(", "),
            Self::Done(summary) => summary.text(),
            Self::Error { message, hint } => format!("rc3: {message}\nhint: {hint}"),
        })
    }

    /// The progress in words, the most important ones first.
    fn progress_parts(&self) -> Vec<String> {
        let &Self::Progress {
            bytes,
            total_bytes,
            files,
            total_files,
            bytes_per_second,
            eta_seconds,
            steered,
        } = self
        else {
            return Vec::new();
        };
        // A pause lets the mean approach zero without end.
        let rate = about_rate((bytes_per_second * 8.0).round());
        let mode = steered.map(|steered| format!("{} mode", steered.mode));
        let Some(total) = total_bytes else {
            return [about_bytes(bytes), rate].into_iter().chain(mode).collect();
        };
        // Files are verified and renamed after their last byte.
        let most = if files < total_files { 99 } else { 100 };
        let percent = (100 * u128::from(bytes) / u128::from(total.max(1))).min(most);
        let left = eta_seconds.map(|eta| format!("{} left", time_text(eta)));
        let amount = format!("{} of {}", about_bytes(bytes), about_bytes(total));
        let files = format!("{files} of {}", count(total_files, "file"));
        let parts = [format!("{percent} %"), rate].into_iter().chain(left);
        parts.chain([amount, files]).chain(mode).collect()
    }
}

impl<'a> From<&'a LeftOut> for Event<'a> {
    fn from(left_out: &'a LeftOut) -> Self {
        let path = Name(left_out.path.as_os_str().as_encoded_bytes());
        Self::Skipped { path, reason: left_out.reason.to_string() }
    }
}

fn time_text(seconds: f64) -> String {
    about_time(Duration::try_from_secs_f64(seconds).unwrap_or_default())
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
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Summary {
    /// Files in place, without directories.
    pub files: usize,
    /// Files that already existed with the same content.
    pub unchanged_files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// From the agreement on what to send to the last file in place.
    pub seconds: f64,
    /// Mean rate over that time of the bytes that were not there before.
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

impl Summary {
    fn text(&self) -> String {
        if self.files == 0 {
            return "no file was stored".to_owned();
        }
        let rlp: u64 = self.rlp_bytes.iter().sum();
        let share = if rlp == 0 { String::new() } else { format!(", {} of them by RLP", about_bytes(rlp)) };
        let steered =
            self.steered_seconds.map(|seconds| format!(", {} in Kick-Ass mode", time_text(seconds)));
        let there = match self.unchanged_files {
            0 => String::new(),
            unchanged => format!(" ({unchanged} of them unchanged)"),
        };
        let rate = about_rate(self.bytes_per_second * 8.0);
        let rate = if self.bytes_per_second > 0.0 { format!(", {rate}") } else { String::new() };
        let path = self.path.as_ref().filter(|path| path.rate_bits_per_second.is_some());
        format!(
            "verified: {}{there}, {} in {}{rate}{share}{}{}",
            count(self.files, "file"),
            about_bytes(self.bytes),
            time_text(self.seconds),
            steered.unwrap_or_default(),
            path.map_or_else(String::new, |path| format!("\n{}", path.brief())),
        )
    }
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
    /// Bytes, time and rate since both sides agreed; hidden unless the style is [`Style::Bar`].
    bar: Option<ProgressBar>,
    line_at: Instant,
    total_files: usize,
    /// Bytes that no stream brings.
    there: u64,
    /// Bytes that streams bring, unless of a pipe.
    needed: Option<u64>,
    /// Files in place, and their bytes.
    placed: (usize, u64),
    /// The receiver's activity, as printed last.
    waiting: Option<Work>,
    /// For how long the other side has answered nothing.
    silence: Option<Duration>,
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
        Self {
            style,
            observer,
            verb,
            bars,
            bar: None,
            line_at: Instant::now(),
            total_files: 0,
            there: 0,
            needed: None,
            placed: (0, 0),
            waiting: None,
            silence: None,
            steered: None,
        }
    }

    /// Passes an event on.
    pub(crate) fn report(&self, event: &Event<'_>) {
        match (&self.observer, self.style) {
            (Some(Observer(observe)), _) => observe(event),
            (None, Style::Json) => json(event),
            (None, style) => {
                if let Some(text) = event.text(self.verb)
                    && (event.is_error() || style != Style::Quiet)
                {
                    self.print(&text);
                }
            }
        }
    }

    /// A line for users, not needed by programs.
    pub fn note(&self, text: &str) {
        if matches!(self.style, Style::Bar | Style::Lines) {
            self.print(text);
        }
    }

    /// One line about the present state, for the manager of this service.
    pub(super) fn status(&self, text: &str) {
        if self.observer.is_none() {
            notify::status(text);
        }
    }

    /// The receiver is ready. It prints the ticket or code to standard output, or to standard error if a pipe arrives there, even
    /// if quiet.
    ///
    /// # Errors
    /// When standard output does not take it: then nobody can send.
    pub fn listening(&self, what: &str, ticket: &str, to_pipe: bool) -> io::Result<()> {
        if self.style == Style::Json {
            self.report(&Event::Listening { ticket: Some(ticket), ticket_file: None });
        } else if to_pipe {
            self.note(&format!("on the other machine: COMMAND | rc3 send - TICKET, with this {what}:"));
            log::line(ticket);
        } else {
            self.note(&format!("on the other machine: rc3 send PATH... -, then paste this {what}:"));
            output::emit(ticket);
        }
        output::finish()
    }

    /// The receiver is ready; its ticket is in a file.
    pub fn listening_by_file(&self, path: &Path) {
        let ticket_file = printable_path(path);
        self.note(&format!(
            "the ticket is in {ticket_file}; on the other machine: rc3 send --ticket-file {ticket_file} PATH..."
        ));
        self.report(&Event::Listening { ticket: None, ticket_file: Some(ticket_file) });
    }

    /// What a dry run has found of an entry: an event for programs, else a line on standard output, because it is the
    /// requested result.
    pub(super) fn would(&self, entry: &SourceEntry, action: &str) {
        if self.style == Style::Json {
            return self.report(&Event::Would { path: (&entry.name).into(), action });
        }
        let mut line = format!("{action:9} ").into_bytes();
        // Raw in a pipe, where a program may need the exact name.
        if io::stdout().is_terminal() {
            line.extend_from_slice(entry.name.to_string().as_bytes());
        } else {
            line.extend_from_slice(entry.name.as_bytes());
        }
        let is_directory = matches!(entry.kind, Kind::Directory { .. });
        line.extend_from_slice(if is_directory { b"/" } else { b"" });
        output::emit(line);
    }

    /// The end of a dry run.
    pub fn would_send(&self, files: usize, bytes: u64) {
        self.note(&format!("would send {} in {}", about_bytes(bytes), count(files, "file")));
    }

    /// The receiver reports that it is working; may be called at any rate.
    pub fn waiting(&mut self, work: Work) {
        if self.waiting.replace(work) != Some(work) {
            self.report(&Event::Waiting { receiver: work });
        }
    }

    /// The other side has answered nothing for this long; may be called at any rate.
    pub fn silent(&mut self, silence: Option<Duration>) {
        self.silence = silence;
        let event = silence.map(|silence| Event::Silent { seconds: silence.as_secs().max(1) as f64 });
        let Some(event) = event else { return };
        if let (Some(bar), Style::Bar) = (&self.bar, self.style) {
            bar.set_message(event.text(self.verb).unwrap_or_default());
        } else if self.line_at.elapsed() >= LINE_EVERY.max(silence.unwrap_or_default() / 4) {
            self.line_at = Instant::now();
            self.report(&event);
        }
    }

    /// Names that can mislead a reader will arrive.
    pub fn misleading(&self, paths: &[SafePath]) {
        let most = if self.style == Style::Json { usize::MAX } else { MISLEADING_MAX };
        for path in paths.iter().take(most) {
            self.report(&Event::Misleading { path: path.into() });
        }
        if let Some(more) = paths.len().checked_sub(most).filter(|&more| more > 0) {
            self.note(&format!("warning: {} more with hidden characters", count(more, "name")));
        }
    }

    /// Both sides agree: of so many files and bytes (unknown of a pipe), some exist, and streams bring `needed` bytes.
    pub fn start(
        &mut self,
        files: usize,
        bytes: Option<u64>,
        there: (usize, u64),
        needed: u64,
        connection: &Connection,
    ) {
        (self.line_at, self.total_files, self.placed) = (Instant::now(), files, there);
        self.there = bytes.map_or(0, |bytes| bytes.saturating_sub(needed));
        self.needed = bytes.map(|_| needed);
        let (peer, rc3) = (connection.remote_address().to_string(), connection.is_rc3());
        self.report(&Event::Start { files, bytes, peer, rc3 });
        let mut bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::hidden());
        if self.style == Style::Bar {
            bar.set_style(bar_style(bytes.is_some()));
            bar = self.bars.add(bar);
        }
        bar.set_position(self.there);
        // What was there did not arrive.
        bar.reset_eta();
        self.bar = Some(bar);
    }

    /// Whether both sides have agreed.
    pub fn has_started(&self) -> bool {
        self.bar.is_some()
    }

    /// Reports how many bytes streams have brought; may be called at any rate.
    pub fn progress(&mut self, streamed: u64) {
        let Some(bar) = self.bar.as_ref().filter(|_| self.silence.is_none()) else { return };
        let total = bar.length();
        let bytes = (self.there + streamed).min(total.unwrap_or(u64::MAX));
        bar.set_position(bytes);
        let every = if self.observer.is_some() { OBSERVED_EVERY } else { LINE_EVERY };
        if self.style != Style::Bar && self.line_at.elapsed() < every {
            return;
        }
        self.line_at = Instant::now();
        let rate = bar.per_sec();
        let left = total.map(|total| (total - bytes) as f64 / rate);
        let event = Event::Progress {
            bytes,
            total_bytes: total,
            files: self.placed.0,
            total_files: self.total_files,
            bytes_per_second: rate,
            eta_seconds: left.filter(|&left| Duration::try_from_secs_f64(left).is_ok()),
            steered: self.steered,
        };
        if self.style == Style::Bar {
            let columns = console::Term::stderr().size_checked().map_or(80, |(_, columns)| columns.into());
            let share = bytes as f64 / total.unwrap_or(0).max(1) as f64;
            bar.set_message(fitted(&event.progress_parts(), total.map(|_| share), columns));
        } else {
            self.report(&event);
        }
    }

    /// A file is in place.
    pub fn file(&mut self, path: &SafePath, bytes: u64) {
        self.placed = (self.placed.0 + 1, self.placed.1 + bytes);
        counter!("rc3_files").increment(1);
        counter!("rc3_file_bytes").increment(bytes);
        self.report(&Event::File { path: path.into(), bytes });
    }

    /// The figures so far, of which so many files existed.
    pub fn summary(&self, unchanged_files: usize) -> Summary {
        let (files, bytes) = self.placed;
        let seconds = self.bar.as_ref().map_or(0.0, |bar| bar.elapsed().as_secs_f64());
        let brought = self.needed.map_or(bytes, |needed| needed.min(bytes));
        let bytes_per_second = brought as f64 / seconds.max(1e-9);
        Summary { files, unchanged_files, bytes, seconds, bytes_per_second, ..Summary::default() }
    }

    /// Everything is in place.
    pub fn done(&mut self, summary: Summary) {
        self.clear();
        self.report(&Event::Done(summary));
    }

    /// The command failed: one line and a hint, in every style.
    pub fn error(&mut self, error: &Error) {
        self.clear();
        self.report(&Event::Error { message: error.to_string(), hint: error.hint() });
    }

    /// Removes the bar.
    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn print(&self, text: &str) {
        self.bars.suspend(|| log::line(text));
    }
}

/// `1 file`, `2 files`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn bar_style(is_bounded: bool) -> ProgressStyle {
    // A wide message is cut at the end of the line, however wide the terminal is now.
    let template = if is_bounded { "{wide_msg}" } else { "{wide_msg} {elapsed}" };
    // The template is constant; if it were wrong, the default bar would be used.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// As many parts as fit into a line, after a bar of this share if there is room for all.
fn fitted(parts: &[String], share: Option<f64>, columns: usize) -> String {
    const BAR: usize = 10;
    let mut line = String::new();
    for part in parts {
        let separator = if line.is_empty() { "" } else { ", " };
        if line.len() + separator.len() + part.len() >= columns {
            return line;
        }
        line = line + separator + part;
    }
    match share {
        Some(share) if BAR + 2 + line.len() < columns => {
            let bar = "=".repeat((share * BAR as f64) as usize);
            format!("{bar:BAR$}  {line}")
        }
        _ => line,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_flat_objects_named_by_their_event() {
        let text = serde_json::to_string(&Event::File { path: Name(b"a"), bytes: 5 }).unwrap();
        assert_eq!(text, r#"{"event":"file","path":"a","bytes":5}"#);
        let summary =
            Summary { files: 1, bytes: 5, seconds: 0.5, bytes_per_second: 10.0, ..Summary::default() };
        let text = serde_json::to_string(&Event::Done(summary)).unwrap();
        assert!(
            text.starts_with(r#"{"event":"done","files":1,"unchanged_files":0,"bytes":5,"seconds":0.5,"#),
            "{text}"
        );
    }

    #[test]
    fn json_for_a_terminal_means_the_same() {
        let path = "gpj\u{202e}\u{9b}2J\u{7f}\u{1b}\u{e0041}ä \u{fffd}";
        let text = serde_json::to_string(&Event::File { path: Name(path.as_bytes()), bytes: 5 }).unwrap();
        let shown = escaped(&text);
        assert!(!shown.contains(|c: char| c.is_control() || is_hidden(c)), "{shown:?}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read["path"], path);
    }

    #[test]
    fn progress_fits_the_terminal_and_ends_with_the_last_file() {
        let progress = |bytes, files| Event::Progress {
            bytes,
            total_bytes: Some(2_500_000_000),
            files,
            total_files: 1234,
            bytes_per_second: 12_345_678.0,
            eta_seconds: Some(100.0),
            steered: None,
        };
        let parts = progress(2_500_000_000, 1233).progress_parts();
        assert_eq!(parts[0], "99 %");
        assert_eq!(progress(2_500_000_000, 1234).progress_parts()[0], "100 %");
        let shown = |columns| fitted(&parts, Some(0.55), columns);
        assert_eq!(shown(120), format!("=====       {}", parts.join(", ")));
        assert_eq!(shown(80), format!("=====       {}", parts.join(", ")));
        assert_eq!(shown(40), format!("{}, {}, {}", parts[0], parts[1], parts[2]));
        assert_eq!(shown(3), "");
    }

    #[test]
    fn rates_count_what_was_not_there() {
        let mut reporter = Reporter::new(Style::Quiet, "");
        (reporter.needed, reporter.placed) = (Some(0), (1, 1 << 40));
        let text = reporter.summary(1).text();
        assert!(
            text.starts_with("verified: 1 file (1 of them unchanged), 1.1 TB in ") && !text.contains("bit/s"),
            "{text}"
        );
        reporter.needed = Some(1000);
        let summary = reporter.summary(0);
        assert_eq!((summary.bytes_per_second * summary.seconds.max(1e-9)).round(), 1000.0);
    }

    #[test]
    fn flags_win_over_the_terminal() {
        assert_eq!(Style::choose(true, false), Style::Json);
        assert_eq!(Style::choose(false, true), Style::Quiet);
    }
}
