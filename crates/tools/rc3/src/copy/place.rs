//! One side of a copy: a path here, or on another host.

use std::{ffi::OsStr, path::PathBuf};

use crate::{system, transfer::paths::Rules};

/// A path, and the host it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On this host.
    Here(PathBuf),
    /// On another host: as ssh takes it, and a path there.
    There {
        /// `host`, `user@host` or an alias of ssh's configuration.
        host: String,
        /// Relative paths begin at the home directory.
        path: Vec<u8>,
    },
}

impl Place {
    /// Reads an argument by the rules of scp: a colon before any slash ends a host, and an IPv6 address stands in brackets.
    /// `./a:b` is therefore local, and so is what begins with a drive of Windows there.
    pub fn parse(argument: &OsStr) -> Self {
        Self::remote(Rules::HERE, argument).unwrap_or_else(|| Self::Here(PathBuf::from(argument)))
    }

    fn remote(rules: Rules, argument: &OsStr) -> Option<Self> {
        let bytes = argument.as_encoded_bytes();
        let colon = end_of_host(bytes).filter(|&colon| rules == Rules::Unix || colon > 1)?;
        let host = std::str::from_utf8(&bytes[..colon]).ok()?;
        let path = bytes[colon + 1..].to_owned();
        Some(Self::There { host: host.replace(['[', ']'], ""), path })
    }
}

/// Where the colon behind a host is.
fn end_of_host(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b":") {
        return None;
    }
    let mut in_brackets = bytes.starts_with(b"[");
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'@' if bytes.get(at + 1) == Some(&b'[') => in_brackets = true,
            b']' if in_brackets && bytes.get(at + 1) == Some(&b':') => return Some(at + 1),
            b':' if !in_brackets => return Some(at),
            b'/' => return None,
            _ => {}
        }
    }
    None
}

/// A path of the other host as one of this host's.
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    // As a shell expands it, which no shell does here.
    let bytes = match bytes {
        b"" | b"~" | b"~/" => b".",
        [b'~', b'/', rest @ ..] => rest,
        bytes => bytes,
    };
    PathBuf::from(system::os_str(bytes))
}

/// The last name of a path on the other host; `None` if it has none of its own, such as `..`.
pub(super) fn last_name(path: &[u8]) -> Option<Vec<u8>> {
    Some(path_of(path).file_name()?.as_encoded_bytes().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(host: &str, path: &str) -> Place {
        Place::There { host: host.to_owned(), path: path.as_bytes().to_owned() }
    }

    #[test]
    fn a_colon_before_any_slash_ends_a_host() {
        let place = |argument: &str| Place::parse(OsStr::new(argument));
        assert_eq!(place("host:/data"), there("host", "/data"));
        assert_eq!(place("me@host:"), there("me@host", ""));
        assert_eq!(place("host:a:b/c"), there("host", "a:b/c"));
        assert_eq!(place("[2001:db8::1]:x"), there("2001:db8::1", "x"));
        assert_eq!(place("me@[::1]:x"), there("me@::1", "x"));
        for local in ["./a:b", "/a:b", "dir/a:b", ":a", "plain", "[::1]", ""] {
            assert_eq!(place(local), Place::Here(local.into()), "{local}");
        }
        let on_windows = |argument: &str| Place::remote(Rules::Windows, OsStr::new(argument));
        assert_eq!(on_windows("C:\\a"), None);
        assert_eq!(on_windows("host:C:\\a"), Some(there("host", "C:\\a")));
    }

    #[test]
    fn paths_begin_at_home() {
        let path = |text: &str| path_of(text.as_bytes());
        assert_eq!(path(""), PathBuf::from("."));
        assert_eq!(path("~"), PathBuf::from("."));
        assert_eq!(path("~/"), PathBuf::from("."));
        assert_eq!(path("~/a"), PathBuf::from("a"));
        assert_eq!(path("~other"), PathBuf::from("~other"));
        assert_eq!(path("/a/~"), PathBuf::from("/a/~"));
        assert_eq!(last_name(b"/data/run7/"), Some(b"run7".to_vec()));
        assert_eq!(last_name(b"/data/.."), None);
        assert_eq!(last_name(b"~"), None);
    }
}
