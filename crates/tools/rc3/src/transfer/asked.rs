//! What a receiver lets its sender name.
//!
//! Invariant: a message with a name reaches no other code before [`Asked::admits`] has seen it, because
//! [`super::session::Session::hear`] is the only source of messages.

use super::{
    message::{Entry, FromSender, Kind},
    paths::SafePath,
};

/// What this side asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Asked {
    /// What the sender chooses: it is the user of this receiver, or a holder of its ticket.
    #[default]
    Anything,
    /// Files and directories that the sender chooses, but no pipe.
    Files,
    /// One pipe, for standard output.
    Pipe,
    /// What a host with the files was asked for. It may lie.
    Download {
        /// The names at the top of its manifest; `None`: any, for a source without a name of its own.
        names: Option<Vec<Vec<u8>>>,
        /// Whether links may arrive as links.
        links: bool,
    },
}

impl Asked {
    /// Whether the message names only what this side asked for, in a form that it asked for.
    pub(super) fn admits(&self, message: &FromSender) -> bool {
        let is_pipe = matches!(message, FromSender::Entry(Entry { kind: Kind::Pipe, .. }));
        match self {
            Self::Anything => true,
            Self::Files => !is_pipe,
            Self::Pipe => is_pipe || (message.name().is_none() && !is_dry(message)),
            Self::Download { names, links } => {
                is_admitted_kind(message, *links) && message.name().is_none_or(|name| is_below(name, names))
            }
        }
    }

    /// The entry with a name for the user, if it has none that counts.
    pub(super) fn named(&self, entry: Entry) -> Entry {
        if *self == Self::Pipe {
            Entry { path: SafePath::of_pipe().as_bytes().to_owned(), ..entry }
        } else {
            entry
        }
    }

    /// How many names at the front of a path links must not lead out of: a link out of a directory that was asked for would
    /// lead the next download elsewhere.
    pub(super) fn link_floor(&self) -> usize {
        usize::from(self.is_download())
    }

    /// Whether this side asked for certain files.
    pub(super) fn is_download(&self) -> bool {
        matches!(self, Self::Download { .. })
    }
}

/// A source that is a link is followed there, so links are only below others.
fn is_admitted_kind(message: &FromSender, links: bool) -> bool {
    match message {
        FromSender::Entry(Entry { path, kind: Kind::Link { .. } }) => links && path.contains(&b'/'),
        FromSender::Entry(Entry { kind: Kind::Pipe, .. }) => false,
        message => !is_dry(message),
    }
}

fn is_dry(message: &FromSender) -> bool {
    matches!(message, FromSender::ManifestEnd { dry_run: true, .. })
}

fn is_below(name: &[u8], names: &Option<Vec<Vec<u8>>>) -> bool {
    let top = name.split(|&byte| byte == b'/').next().unwrap_or_default();
    names.as_ref().is_none_or(|names| names.iter().any(|asked| asked == top))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], kind: Kind) -> FromSender {
        FromSender::Entry(Entry { path: path.to_owned(), kind })
    }

    #[test]
    fn only_what_was_asked_for_is_admitted_in_any_form() {
        let directory = || Kind::Directory { mode: None, modified: None };
        let link = || Kind::Link { target: b"x".to_vec(), modified: None };
        let pipe = |name: &[u8]| entry(name, Kind::Pipe);
        let end = |dry_run| FromSender::ManifestEnd { dry_run, early: 0 };
        let absent = |path: &[u8]| FromSender::Absent { path: path.to_owned(), reason: String::new() };
        let named = |links| Asked::Download { names: Some(vec![b"a".to_vec()]), links };
        let any = Asked::Download { names: None, links: false };
        for (asked, message, admitted) in [
            (named(false), entry(b"a", directory()), true),
            (named(false), entry(b"a/.profile", directory()), true),
            (named(false), entry(b"b", directory()), false),
            (named(false), entry(b"ab", directory()), false),
            (named(false), entry(b"", directory()), false),
            (named(false), absent(b"a/b"), true),
            (named(false), absent(b"b"), false),
            (named(false), pipe(b"a"), false),
            (named(false), pipe(b".profile"), false),
            (named(false), pipe(b""), false),
            (named(false), end(true), false),
            (named(false), end(false), true),
            (named(false), entry(b"a/l", link()), false),
            (named(true), entry(b"a/l", link()), true),
            (named(true), entry(b"a", link()), false),
            (any.clone(), entry(b"b", directory()), true),
            (any, pipe(b"b"), false),
            (Asked::Files, pipe(b"a"), false),
            (Asked::Files, entry(b"b", link()), true),
            (Asked::Files, end(true), true),
            (Asked::Anything, pipe(b"a"), true),
            (Asked::Pipe, pipe(b"a"), true),
            (Asked::Pipe, entry(b"a", directory()), false),
            (Asked::Pipe, absent(b"a"), false),
            (Asked::Pipe, end(true), false),
            (Asked::Pipe, end(false), true),
        ] {
            assert_eq!(asked.admits(&message), admitted, "{asked:?} {message:?}");
        }
    }
}
