//! Names from the network, and names for the network.
//!
//! Names are bytes, as on Unix: most are UTF-8, but others are sent too. Invariant: a [`SafePath`] is relative, never
//! goes up, and contains no name that the system of its [`Rules`] treats specially or that belongs to an incomplete file of
//! this program. Joined to a directory, it therefore stays below that directory. The directory handle deals with
//! existing symbolic links: it follows none that leads out.

use std::{
    borrow::Borrow,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;

use crate::system::os_str;

/// Most bytes of a path, including separators.
pub const PATH_BYTES_MAX: usize = 4096;
/// Most bytes of one name: the limit of common file systems.
const NAME_BYTES_MAX: usize = 255;
/// Most names in one path.
const DEPTH_MAX: usize = 128;

/// The suffix of incomplete files' names.
pub const PART_SUFFIX: &str = ".rc3-part";
/// The role of an incomplete file's record.
pub const RECORD: &str = "-record";
/// The role of a record that is being written.
pub const NEXT_RECORD: &str = "-record-next";
/// Letters of a tag, which are hexadecimal digits.
pub const TAG_LETTERS: usize = 8;

/// Device names of Windows, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Which system's special names to refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Slash separates; all other characters are ordinary.
    Unix,
    /// Device names, drive letters, backslashes, streams, short names and trailing dots have a meaning. Links are refused.
    Windows,
}

impl Rules {
    /// The rules of the system this runs on.
    pub const HERE: Self = if cfg!(unix) { Self::Unix } else { Self::Windows };
}

impl Default for Rules {
    fn default() -> Self {
        Self::HERE
    }
}

/// A relative path, its names joined by `/`. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SafePath(Arc<[u8]>);

impl SafePath {
    /// Accepts a path from a peer by [`Rules::HERE`], or returns why not.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        Self::parse_by(Rules::HERE, bytes)
    }

    /// Accepts a path from a peer by the rules of a system, or returns why not.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse_by(rules: Rules, bytes: &[u8]) -> Result<Self, PathError> {
        if bytes.is_empty() {
            return Err(PathError::Empty);
        }
        if bytes.len() > PATH_BYTES_MAX || names(bytes).count() > DEPTH_MAX {
            return Err(PathError::TooLong);
        }
        if bytes.starts_with(b"/") {
            return Err(PathError::Absolute);
        }
        names(bytes).try_for_each(|name| check_name(rules, name))?;
        Ok(Self(bytes.into()))
    }

    /// What a pipe without a name is called.
    pub(super) fn of_pipe() -> Self {
        Self(b"the stream"[..].into())
    }

    /// The path with `/` between its names.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path as the system expects it.
    pub fn as_path(&self) -> &Path {
        Path::new(os_str(&self.0))
    }

    /// The last name.
    fn name(&self) -> &[u8] {
        names(&self.0).next_back().unwrap_or(&self.0)
    }

    /// The path without its last name, or `None` at the top.
    pub fn parent(&self) -> Option<&[u8]> {
        let end = self.0.len().checked_sub(self.name().len() + 1)?;
        self.0.get(..end)
    }

    /// The path of an incomplete file next to this one. A `tag` of [`TAG_LETTERS`] distinguishes it from others of the
    /// same name, and `role` from others with the same tag: empty, or a word after a hyphen.
    ///
    /// Long names are cut at a character boundary, so that the result fits wherever the name does.
    pub fn part(&self, tag: &str, role: &str) -> PathBuf {
        let end = format!(".{tag}{role}{PART_SUFFIX}");
        let name = self.name();
        let mut cut = NAME_BYTES_MAX.saturating_sub(1 + end.len()).min(name.len());
        while cut > 0 && name.get(cut).is_some_and(|byte| byte & 0xc0 == 0x80) {
            cut -= 1;
        }
        let mut part = b".".to_vec();
        part.extend_from_slice(name.get(..cut).unwrap_or_default());
        part.extend_from_slice(end.as_bytes());
        self.as_path().with_file_name(os_str(&part))
    }
}

impl Borrow<[u8]> for SafePath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SafePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for SafePath {
    /// Printable form: see [`printable_bytes`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable_bytes(&self.0))
    }
}

fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
}

/// Whether a name is one that [`SafePath::part`] makes, in any letter case: `.NAME.TAG.rc3-part`, the tag with or
/// without `-record` or `-record-next`.
fn is_part(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let Some(rest) = name.strip_prefix(b".").and_then(|rest| rest.strip_suffix(PART_SUFFIX.as_bytes()))
    else {
        return false;
    };
    let roles = [NEXT_RECORD, RECORD];
    let rest = roles.iter().find_map(|role| rest.strip_suffix(role.as_bytes())).unwrap_or(rest);
    let Some((before, tag)) = rest.split_last_chunk::<TAG_LETTERS>() else { return false };
    before.ends_with(b".") && tag.iter().all(u8::is_ascii_hexdigit)
}

/// Why a path from a peer was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// An empty path, two separators in a row, or one at the end.
    #[error("it has an empty name")]
    Empty,
    /// Starts at a root or drive.
    #[error("it is absolute")]
    Absolute,
    /// `.` or `..`.
    #[error("it has a `.` or `..`")]
    Dots,
    /// NUL, or a character with a meaning to the receiving system.
    #[error("it has a character that is not allowed in names")]
    Character,
    /// The name of a device, or the short form of another name.
    #[error("it has a reserved name")]
    Reserved,
    /// Not UTF-8, which the receiving system requires.
    #[error("it has a name that is not valid UTF-8")]
    NotText,
    /// The name of an incomplete file that `rc3 recv` left.
    #[error("it has the name of an incomplete file")]
    Part,
    /// Longer or deeper than any file system supports.
    #[error("it is too long")]
    TooLong,
}

/// Text from a peer, safe to print: control characters and characters that reorder or hide text are escaped.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// The same for a name; bytes that are not UTF-8 are shown as `\xNN`.
pub fn printable_bytes(name: &[u8]) -> String {
    let mut shown = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        shown += &printable(chunk.valid());
        chunk.invalid().iter().for_each(|byte| shown += &format!("\\x{byte:02x}"));
    }
    shown
}

/// The same for a path of this system.
pub fn printable_path(path: &Path) -> String {
    printable_bytes(path.as_os_str().as_encoded_bytes())
}

/// Whether a character of a file name can mislead a reader: it controls a terminal or reorders text. Joiners, which
/// emoji and several scripts need, do not.
pub fn misleads(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is invisible: a format character of Unicode, or a line separator.
pub fn is_hidden(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The directory that holds an entry of the file system: its parent, `.` for a bare name.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

fn check_name(rules: Rules, name: &[u8]) -> Result<(), PathError> {
    if name.is_empty() {
        Err(PathError::Empty)
    } else if name.len() > NAME_BYTES_MAX {
        Err(PathError::TooLong)
    } else if name == b"." || name == b".." {
        Err(PathError::Dots)
    } else if name.contains(&0) {
        Err(PathError::Character)
    } else if is_part(name) {
        Err(PathError::Part)
    } else if rules == Rules::Windows {
        check_windows_name(std::str::from_utf8(name).map_err(|_| PathError::NotText)?)
    } else {
        Ok(())
    }
}

/// What Windows takes for something else than a new name below a directory, whatever the extension and the letter case.
fn check_windows_name(name: &str) -> Result<(), PathError> {
    if name.contains(|c: char| c.is_control() || "\\:*?\"<>|".contains(c)) || name.ends_with(['.', ' ']) {
        return Err(PathError::Character);
    }
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '¹' | '²' | '³');
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_lowercase();
    let root = stem.trim_end_matches(is_digit);
    let is_port = matches!(root, "com" | "lpt") && stem.chars().count() == 4;
    // `LETTER~1.TXT` is also the letter that was there before.
    let is_short = root.ends_with('~') && root != stem && stem.chars().count() <= 8;
    let is_reserved = is_port || is_short || DEVICES.contains(&stem.as_str());
    if is_reserved { Err(PathError::Reserved) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    fn parse(path: &[u8]) -> Result<SafePath, PathError> {
        SafePath::parse(path)
    }

    #[test]
    fn paths_that_lead_astray_are_refused() {
        use PathError::{Absolute, Character, Dots, Empty, NotText, Part, Reserved, TooLong};
        let long = "n".repeat(256);
        let longer = "n/".repeat(2048) + "n";
        let deep = "d/".repeat(128) + "n";
        let table = [
            ("", Empty),
            ("/", Absolute),
            ("/etc/passwd", Absolute),
            ("//host/share", Absolute),
            ("a//b", Empty),
            ("a/", Empty),
            (".", Dots),
            ("..", Dots),
            ("../a", Dots),
            ("a/../b", Dots),
            ("a/./b", Dots),
            ("a/..", Dots),
            ("a\0b", Character),
            (".a.12345678.rc3-part", Part),
            ("d/.a.1234abcd.RC3-PART/x", Part),
            ("d/..12345678-record.rc3-part", Part),
            (".a.12345678-Record-Next.rc3-part", Part),
            (&long, TooLong),
            (&longer, TooLong),
            (&deep, TooLong),
        ];
        for (text, error) in table {
            for rules in [Rules::Unix, Rules::Windows] {
                assert_eq!(SafePath::parse_by(rules, text.as_bytes()), Err(error), "{text:?}");
            }
        }
        let of_windows = [
            (&b"C:\\a"[..], Character),
            (b"C:", Character),
            (b"a\\..\\b", Character),
            (b"\\\\host\\share", Character),
            (b"\\\\?\\C:\\a", Character),
            (b"a:stream", Character),
            (b"a\x1f", Character),
            (b"a.", Character),
            (b"d /b", Character),
            (b"nul", Reserved),
            (b"d/CON.txt", Reserved),
            (b"Aux .c", Reserved),
            (b"com1", Reserved),
            (b"LPT0.log", Reserved),
            ("COM¹".as_bytes(), Reserved),
            (b"PROGRA~1/b", Reserved),
            (b"lette~12.txt", Reserved),
            (b"latin-\xe9", NotText),
            // As a lone surrogate of a name of Windows.
            (b"\xed\xa0\x80", NotText),
        ];
        for (path, error) in of_windows {
            let shown = printable_bytes(path);
            assert_eq!(SafePath::parse_by(Rules::Windows, path), Err(error), "{shown}");
            assert!(SafePath::parse_by(Rules::Unix, path).is_ok(), "{shown}");
        }
    }

    #[test]
    fn odd_but_harmless_paths_pass() {
        for text in
            ["a", "...", "..a", "a..", " ", "-rf", "~", "aux.c", "a b/ä ö/日本.txt", "a\nb", "c:", "a\\b"]
        {
            assert_eq!(parse(text.as_bytes()).as_ref().map(SafePath::as_bytes), Ok(text.as_bytes()));
        }
        for name in [&b"latin-\xe9"[..], b"\xff/\xfe", b"a.rc3-part", b".a.rc3-part", b".a.1234567g.rc3-part"]
        {
            assert_eq!(parse(name).as_ref().map(SafePath::as_bytes), Ok(name));
        }
        let of_windows = [
            "a",
            "..a",
            "com",
            "com10",
            "comx",
            "console",
            "null/b",
            "a b/日本.txt",
            "b~",
            "ab~1c",
            "long name~1",
        ];
        for text in of_windows {
            assert!(SafePath::parse_by(Rules::Windows, text.as_bytes()).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn parts_stay_beside_the_file_and_fit() {
        let path = |text: &str| parse(text.as_bytes()).unwrap();
        assert_eq!(path("a/b").part("0123abcd", ""), Path::new("a/.b.0123abcd.rc3-part"));
        assert_eq!(path("b").part("0123abcd", RECORD), Path::new(".b.0123abcd-record.rc3-part"));
        let long = path(&"é".repeat(127)).part("0123abcd", NEXT_RECORD);
        let long = long.to_str().unwrap();
        assert!(
            (250..=255).contains(&long.len()) && long.ends_with(".0123abcd-record-next.rc3-part"),
            "{long}"
        );
        let long = parse(&[0xff; 255]).unwrap().part("0123abcd", "");
        assert_eq!(long.as_os_str().len(), 255);
        let parents = ["a", "a/b", "a/b/c"].map(|text| path(text).parent().map(<[u8]>::to_vec));
        assert_eq!(parents, [None, Some(b"a".to_vec()), Some(b"a/b".to_vec())]);
    }

    #[test]
    fn printed_names_cannot_steer_a_terminal() {
        let path = parse("a\x1b[2J\u{202e}gpj.exe\r".as_bytes()).unwrap();
        assert_eq!(path.to_string(), "a\\u{1b}[2J\\u{202e}gpj.exe\\r");
        assert_eq!(parse(b"latin-\xe9\x80").unwrap().to_string(), "latin-\\xe9\\x80");
        assert_eq!(printable("ä 日本 😀"), "ä 日本 😀");
    }

    proptest! {
        /// The oracle is the path parser of the standard library.
        #[test]
        fn accepted_paths_have_only_normal_components(
            text in proptest::collection::vec("[./a\\\\:\0]{1,3}|\\.\\.|/|aux|é", 0..8),
        ) {
            let text = text.concat();
            for rules in [Rules::Unix, Rules::Windows] {
                let Ok(path) = SafePath::parse_by(rules, text.as_bytes()) else { continue };
                let path = path.as_path();
                prop_assert!(path.is_relative());
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert_eq!(path.components().count(), text.split('/').count());
            }
        }
    }
}
