//! Patterns of paths to send or to leave away.
//!
//! A pattern without `/` matches a name at any depth. One with `/` matches the path as the receiver sees it, beginning
//! with the name of the argument. One that ends in `/` matches only directories. `*` and `?` stop at `/`, `**` does not.

use fast_glob::{glob_match, validate};

use super::paths::SafePath;

/// The files that a user chooses of a directory.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    /// `None` is everything.
    include: Option<Vec<Pattern>>,
    exclude: Vec<Pattern>,
}

impl Patterns {
    /// Everything that matches one of `include`, or everything if there is none, except what matches one of `exclude`.
    ///
    /// # Errors
    /// The first pattern that is not well-formed.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, String> {
        let all = |patterns: &[String]| patterns.iter().map(|text| Pattern::new(text)).collect();
        let include = (!include.is_empty()).then(|| all(include)).transpose()?;
        Ok(Self { include, exclude: all(exclude)? })
    }

    /// Whether an entry, and everything in a directory, is left away.
    pub fn excludes(&self, path: &SafePath, directory: bool) -> bool {
        self.exclude.iter().any(|pattern| pattern.matches(path, directory))
    }

    /// Whether a file is chosen, or everything in a directory.
    pub fn includes(&self, path: &SafePath, directory: bool) -> bool {
        let matches = |include: &Vec<Pattern>| include.iter().any(|pattern| pattern.matches(path, directory));
        self.include.as_ref().is_none_or(matches)
    }

    /// Whether some files are not chosen, so that directories can be empty for that reason.
    pub fn is_selective(&self) -> bool {
        self.include.is_some()
    }
}

/// One pattern.
#[derive(Debug, Clone)]
struct Pattern {
    glob: String,
    only_directories: bool,
}

impl Pattern {
    fn new(text: &str) -> Result<Self, String> {
        let (bare, only_directories) = text.strip_suffix('/').map_or((text, false), |bare| (bare, true));
        // At its start the library takes `!` for a negation.
        let glob = if bare.starts_with('!') { format!("\\{bare}") } else { bare.to_owned() };
        validate(&glob).map_err(|error| format!("{text}: {error}"))?;
        Ok(Self { glob, only_directories })
    }

    fn matches(&self, path: &SafePath, directory: bool) -> bool {
        let path = path.as_path();
        let what =
            if self.glob.contains('/') { path.as_os_str() } else { path.file_name().unwrap_or_default() };
        (directory || !self.only_directories) && glob_match(&self.glob, what.as_encoded_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_at_any_depth_and_paths_from_the_top() {
        let path = |text: &[u8]| SafePath::parse(text).unwrap();
        let matches = |pattern: &str, text: &[u8], directory| {
            let patterns = Patterns::new(&[], &[pattern.to_owned()]).unwrap();
            patterns.excludes(&path(text), directory)
        };
        for (pattern, text, directory, expected) in [
            ("*.o", &b"top/a/b.o"[..], false, true),
            ("*.o", b"top/a.o/b", false, false),
            ("top/*.o", b"top/b.o", false, true),
            ("top/*.o", b"top/a/b.o", false, false),
            ("top/**/*.o", b"top/a/c/b.o", false, true),
            ("target/", b"top/target", true, true),
            ("target/", b"top/target", false, false),
            ("top/b/", b"top/b", true, true),
            ("{a,b}?", b"top/ax", false, true),
            ("{a,b}?", b"top/cx", false, false),
            ("[!a-c]x", b"top/dx", false, true),
            ("[]]x", b"top/]x", false, true),
            ("!a", b"top/!a", false, true),
            ("\\*", b"top/a", false, false),
            ("top/a?b", b"top/a/b", false, false),
            ("*.txt", b"latin-\xe9.txt", false, true),
        ] {
            assert_eq!(matches(pattern, text, directory), expected, "{pattern}");
        }
        for wrong in ["[", "a[b", "{a,b", "a\\"] {
            assert!(Patterns::new(&[wrong.to_owned()], &[]).is_err(), "{wrong}");
        }
        let all = Patterns::default();
        assert!(all.includes(&path(b"a"), false) && !all.excludes(&path(b"a"), false) && !all.is_selective());
    }
}
