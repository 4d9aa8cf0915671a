//! Lines for the user and for readers of a log, on standard error.
//!
//! A terminal or a pipe gets them as they are, a file with the time of each. The journal of systemd has times of its own.
//! Colours go to terminals only.

use std::{
    env, fmt,
    io::{self, IsTerminal, Write},
    sync::OnceLock,
};

use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    fmt::{
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    prelude::*,
};

use crate::system;

/// What standard error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorOutput {
    Terminal,
    File,
    Journal,
    /// A pipe, or a device.
    Other,
}

impl ErrorOutput {
    fn find() -> Self {
        static FOUND: OnceLock<ErrorOutput> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let Ok(there) = system::stderr_metadata() else { return Self::Other };
            let ((device, inode), _) = system::inode(&there);
            // systemd.exec(5), `$JOURNAL_STREAM`: a service may have sent its standard error elsewhere since.
            if env::var("JOURNAL_STREAM").is_ok_and(|stream| stream == format!("{device}:{inode}")) {
                Self::Journal
            } else if io::stderr().is_terminal() {
                Self::Terminal
            } else if there.is_file() {
                Self::File
            } else {
                Self::Other
            }
        })
    }
}

/// Begins to print the `tracing` events that the variable `RUST_LOG` chooses, by default none. For example:
/// `debug`, `rc3_core=trace`.
pub fn init() {
    let filter: Targets = env::var("RUST_LOG").ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    let sink = ErrorOutput::find();
    let events = tracing_subscriber::fmt::layer::<Registry>()
        .with_writer(io::stderr)
        .with_ansi(sink == ErrorOutput::Terminal);
    let events = if sink == ErrorOutput::Journal { events.without_time().boxed() } else { events.boxed() };
    tracing_subscriber::registry().with(events.with_filter(filter)).init();
}

/// Prints a text of one or more lines. Standard error may be closed. Results go to [`rc3_cli::output::emit`].
pub fn line(text: impl fmt::Display) {
    let text = text.to_string();
    let lines = match ErrorOutput::find() {
        ErrorOutput::File => {
            let mut now = String::new();
            let _ = SystemTime.format_time(&mut Writer::new(&mut now));
            text.lines().map(|line| format!("{now} {line}\n")).collect()
        }
        _ => text + "\n",
    };
    let mut to = io::stderr();
    let _ = to.write_all(lines.as_bytes()).and_then(|()| to.flush());
}
