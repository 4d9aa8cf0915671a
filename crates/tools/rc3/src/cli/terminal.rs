//! What the terminal supports.

use std::{
    env,
    io::{self, IsTerminal},
};

use crate::demo::bars::Look;

/// What standard output supports.
pub fn look() -> Look {
    let terminal = io::stdout().is_terminal();
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let columns = console::Term::stdout().size_checked().map_or(80, |(_, columns)| usize::from(columns));
    Look {
        unicode: is_utf8(|name| env::var(name).ok()),
        colour: terminal && !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb"),
        width: columns,
    }
}

/// Whether the locale's encoding is UTF-8: the first of its variables that is set decides.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()))
        .is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_locale_variable_that_is_set_decides() {
        let with = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
            is_utf8(|name| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()))
        };
        assert!(with(&[("LANG", "en_GB.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!with(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
        assert!(!with(&[]));
    }
}
