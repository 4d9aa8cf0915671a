//! Patterns of paths to send or to leave away.
//!
//! A pattern without `/` matches a name at any depth. One with `/` matches the path as the receiver sees it, beginning
//! with the name of the argument. One that ends in `/` matches only directories. `*` and `?` stop at `/`, `**` does not.

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

use super::paths::SafePath;

/// The files that a user chooses of a directory.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    include: Option<Matcher>,
    exclude: Matcher,
}

impl Patterns {
    /// Everything that matches one of `include`, or everything if there is none, except what matches one of `exclude`.
    ///
    /// # Errors
    /// When a pattern is not well-formed.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, globset::Error> {
        let some = (!include.is_empty()).then(|| Matcher::new(include)).transpose()?;
        Ok(Self { include: some, exclude: Matcher::new(exclude)? })
    }

    /// Whether an entry, and everything in a directory, is left away.
    pub fn excludes(&self, path: &SafePath, directory: bool) -> bool {
        self.exclude.matches(path, directory)
    }

    /// Whether a file is chosen, or everything in a directory.
    pub fn includes(&self, path: &SafePath, directory: bool) -> bool {
        self.include.as_ref().is_none_or(|include| include.matches(path, directory))
    }

    /// Whether some files are not chosen, so that directories can be empty for that reason.
    pub fn is_selective(&self) -> bool {
        self.include.is_some()
    }
}

/// Patterns of one kind.
#[derive(Debug, Clone, Default)]
struct Matcher {
    names: GlobSet,
    paths: GlobSet,
    directory_names: GlobSet,
    directory_paths: GlobSet,
}

impl Matcher {
    fn new(patterns: &[String]) -> Result<Self, globset::Error> {
        let mut sets = std::array::from_fn(|_| GlobSetBuilder::new());
        for pattern in patterns {
            let (bare, directory) = match pattern.strip_suffix('/') {
                Some(bare) => (bare, true),
                None => (pattern.as_str(), false),
            };
            let set = 2 * usize::from(directory) + usize::from(bare.contains('/'));
            if let Some(set) = sets.get_mut(set) {
                set.add(GlobBuilder::new(bare).literal_separator(true).backslash_escape(true).build()?);
            }
        }
        let [names, paths, directory_names, directory_paths]: [GlobSetBuilder; 4] = sets;
        Ok(Self {
            names: names.build()?,
            paths: paths.build()?,
            directory_names: directory_names.build()?,
            directory_paths: directory_paths.build()?,
        })
    }

    fn matches(&self, path: &SafePath, directory: bool) -> bool {
        let whole = Candidate::new(path.as_path());
        let name = Candidate::new(path.as_path().file_name().unwrap_or_default());
        let always = self.names.is_match_candidate(&name) || self.paths.is_match_candidate(&whole);
        let only = || {
            self.directory_names.is_match_candidate(&name) || self.directory_paths.is_match_candidate(&whole)
        };
        always || (directory && only())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::paths::Rules, *};

    #[test]
    fn names_match_at_any_depth_and_paths_from_the_top() {
        let path = |text: &[u8]| SafePath::parse(text, Rules::HERE).unwrap();
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
            ("*.txt", b"latin-\xe9.txt", false, true),
        ] {
            assert_eq!(matches(pattern, text, directory), expected, "{pattern}");
        }
        assert!(Patterns::new(&["[".to_owned()], &[]).is_err());
        let all = Patterns::default();
        assert!(all.includes(&path(b"a"), false) && !all.excludes(&path(b"a"), false) && !all.is_selective());
    }
}
