//! The output of a dry run: what would happen to each entry.

use std::io::{self, IsTerminal};

use rc3_cli::output;

use super::{
    agreed::Agreed,
    manifest::Found,
    message::Kind,
    paths::printable_bytes,
    progress::{Event, Reporter, Style},
};

/// One event per entry for programs; else one line on standard output, because it is the requested result.
pub(super) fn list(found: &Found, agreed: &Agreed, reporter: &Reporter) {
    let readable = io::stdout().is_terminal();
    let mut file = 0;
    for (at, entry) in (0..).zip(&found.entries) {
        let directory = matches!(entry.kind, Kind::Directory { .. });
        let action = if directory { agreed.directory_action(at) } else { agreed.action(file, at) };
        file += u32::from(!directory);
        let name = entry.name.as_bytes();
        if reporter.style() == Style::Json {
            reporter.emit(&Event::Would { path: String::from_utf8_lossy(name), action });
            continue;
        }
        let mut line = format!("{action:9} ").into_bytes();
        // Raw in a pipe, where a program may need the exact name.
        if readable {
            line.extend_from_slice(printable_bytes(name).as_bytes());
        } else {
            line.extend_from_slice(name);
        }
        line.extend_from_slice(if directory { b"/" } else { b"" });
        output::emit(line);
    }
}
