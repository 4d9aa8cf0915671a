//! Names that came over the network, and names that may go there.
//!
//! Invariant: a [`SafePath`] is relative, has no way up, and names nothing the receiving system treats
//! specially, so joining it to a directory stays below that directory. Symbolic links already there are the
//! business of the directory handle, which follows none that leads out.

use std::fmt;

use thiserror::Error;

/// Bytes of a whole path, the separators included.
pub const PATH_BYTES_MAX: usize = 4096;
/// Bytes of one name: the limit of common file systems.
const NAME_BYTES_MAX: usize = 255;
/// Names in one path.
const DEPTH_MAX: usize = 128;

/// The end of the names of files not complete yet. Peers may not use it.
pub const PART_SUFFIX: &str = ".rc3-part";

/// Names that Windows gives to devices, with whatever ending.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Whose special names to refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Slash separates, everything else is a letter.
    Unix,
    /// Device names, drive letters, backslashes, streams and trailing dots mean something.
    Windows,
}

impl Rules {
    /// The rules of the system this runs on.
    pub const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Unix };
}

/// A relative path, its names joined by `/`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SafePath(String);

impl SafePath {
    /// Accepts a path from a peer, or says why not.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse(text: &str, rules: Rules) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.len() > PATH_BYTES_MAX || text.split('/').count() > DEPTH_MAX {
            return Err(PathError::TooLong);
        }
        if text.starts_with('/') {
            return Err(PathError::Absolute);
        }
        text.split('/').try_for_each(|name| check_name(name, rules))?;
        Ok(Self(text.to_owned()))
    }

    /// The path with `/` between its names.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The path without its last name, or `None` at the top.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// This directory's path for a file of it that is not complete, told apart from others by `tag`.
    ///
    /// Long names are cut at a character's start, so that the result fits where the name does.
    pub fn part(&self, tag: &str) -> String {
        let parent = self.parent().map(|parent| format!("{parent}/")).unwrap_or_default();
        let room = NAME_BYTES_MAX - PART_SUFFIX.len() - tag.len().min(32) - 2;
        let name = self.name();
        let cut = (0..=room.min(name.len())).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
        format!("{parent}.{}.{tag}{PART_SUFFIX}", &name[..cut])
    }
}

impl fmt::Debug for SafePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for SafePath {
    /// Fit for a terminal: see [`printable`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.0))
    }
}

/// Why a path from a peer was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// No path at all, or two separators in a row, or one at the end.
    #[error("it has an empty name")]
    Empty,
    /// Starts at a root or drive.
    #[error("it is absolute")]
    Absolute,
    /// `.` or `..`.
    #[error("it has a `.` or `..`")]
    Dots,
    /// NUL, or a character the receiving system separates with.
    #[error("it has a character that is not allowed in names")]
    Character,
    /// A device, or the name of a file not complete yet.
    #[error("it has a reserved name")]
    Reserved,
    /// Longer or deeper than any file system takes.
    #[error("it is too long")]
    TooLong,
}

/// Text from a peer, safe to print: control characters and what turns writing around are escaped.
pub fn printable(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

fn check_name(name: &str, rules: Rules) -> Result<(), PathError> {
    if name.is_empty() {
        return Err(PathError::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(PathError::TooLong);
    }
    if name == "." || name == ".." {
        return Err(PathError::Dots);
    }
    if name.contains('\0') {
        return Err(PathError::Character);
    }
    if name.to_ascii_lowercase().ends_with(PART_SUFFIX) {
        return Err(PathError::Reserved);
    }
    match rules {
        Rules::Unix => Ok(()),
        Rules::Windows => check_windows_name(name),
    }
}

fn check_windows_name(name: &str) -> Result<(), PathError> {
    if name.contains(|c: char| c.is_control() || "\\:*?\"<>|".contains(c)) || name.ends_with(['.', ' ']) {
        return Err(PathError::Character);
    }
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_lowercase();
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    let numbered = port.is_some_and(|n| matches!(n, "¹" | "²" | "³") || (n.len() == 1 && n < "a"));
    if numbered || DEVICES.contains(&stem.as_str()) { Err(PathError::Reserved) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_that_lead_astray_are_refused() {
        use PathError::{Absolute, Character, Dots, Empty, Reserved, TooLong};
        let long = "n".repeat(256);
        let longer = "n/".repeat(2048) + "n";
        let deep = "d/".repeat(128) + "n";
        let table = [
            ("", Empty, Rules::Unix),
            ("/", Absolute, Rules::Unix),
            ("/etc/passwd", Absolute, Rules::Unix),
            ("//host/share", Absolute, Rules::Unix),
            ("a//b", Empty, Rules::Unix),
            ("a/", Empty, Rules::Unix),
            (".", Dots, Rules::Unix),
            ("..", Dots, Rules::Unix),
            ("../a", Dots, Rules::Unix),
            ("a/../b", Dots, Rules::Unix),
            ("a/./b", Dots, Rules::Unix),
            ("a/..", Dots, Rules::Unix),
            ("a\0b", Character, Rules::Unix),
            (".a.rc3-part", Reserved, Rules::Unix),
            ("d/.a.12345678.RC3-PART/x", Reserved, Rules::Unix),
            (&long, TooLong, Rules::Unix),
            (&longer, TooLong, Rules::Unix),
            (&deep, TooLong, Rules::Unix),
            ("C:\\a", Character, Rules::Windows),
            ("C:", Character, Rules::Windows),
            ("a\\..\\b", Character, Rules::Windows),
            ("\\\\host\\share", Character, Rules::Windows),
            ("a:stream", Character, Rules::Windows),
            ("a.", Character, Rules::Windows),
            ("a ", Character, Rules::Windows),
            ("nul", Reserved, Rules::Windows),
            ("d/CON.txt", Reserved, Rules::Windows),
            ("com1", Reserved, Rules::Windows),
            ("LPT9.log", Reserved, Rules::Windows),
            ("COM¹", Reserved, Rules::Windows),
        ];
        for (text, error, rules) in table {
            assert_eq!(SafePath::parse(text, rules), Err(error), "{text:?}");
        }
    }

    #[test]
    fn odd_but_harmless_paths_pass() {
        for text in
            ["a", "...", "..a", "a..", " ", "-rf", "~", "aux.c", "a b/ä ö/日本.txt", "a\nb", "c:", "a\\b"]
        {
            assert_eq!(SafePath::parse(text, Rules::Unix).as_ref().map(SafePath::as_str), Ok(text));
        }
        for text in ["a", "..a", "com", "com10", "comx", "console", "null/b", "a b/日本.txt"] {
            assert!(SafePath::parse(text, Rules::Windows).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn parts_stay_beside_the_file_and_fit() {
        let path = |text: &str| SafePath::parse(text, Rules::Unix).unwrap();
        assert_eq!(path("a/b").part("0a"), "a/.b.0a.rc3-part");
        assert_eq!(path("b").part("0a"), ".b.0a.rc3-part");
        let long = path(&"é".repeat(127)).part("01234567");
        assert!(long.len() <= 255 && long.ends_with(".01234567.rc3-part"), "{long}");
    }

    #[test]
    fn printed_names_cannot_steer_a_terminal() {
        let path = SafePath::parse("a\x1b[2J\u{202e}gpj.exe\r", Rules::Unix).unwrap();
        assert_eq!(path.to_string(), "a\\u{1b}[2J\\u{202e}gpj.exe\\r");
        assert_eq!(printable("ä 日本 😀"), "ä 日本 😀");
    }

    proptest! {
        /// The oracle is the standard library's own idea of a path.
        #[test]
        fn accepted_paths_have_only_normal_components(
            text in proptest::collection::vec("[./a\\\\:\0]{1,3}|\\.\\.|/|aux|é", 0..8),
        ) {
            let text = text.concat();
            if let Ok(path) = SafePath::parse(&text, Rules::HERE) {
                let path = Path::new(path.as_str());
                prop_assert!(path.is_relative());
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert_eq!(path.components().count(), text.split('/').count());
            }
        }
    }
}
