//! The page of all keys of scenario files, made from the comments of `spec.rs` and from a registry.
//!
//! The source is parsed line by line, in the shape that rustfmt gives it: an item with its comment, then fields or variants with
//! theirs. docs/reproduction/keys.md is this page for the built-in names; a test holds them equal.

use std::fmt::Write;

use rc3_text::document::quoted;

use crate::registry::Registry;

/// The page as Markdown.
pub fn page(registry: &Registry) -> String {
    let source = include_str!("spec.rs");
    let names: Vec<String> = source.lines().filter_map(opening).map(|(name, _)| name).collect();
    let mut page = String::from(HEAD);
    let (mut comment, mut attributes) = (String::new(), String::new());
    // Whether the lines are those of an enum, and whether all fields of the struct have defaults.
    let mut item = None;
    for line in source.lines() {
        let text = line.trim();
        if let Some(words) = text.strip_prefix("///") {
            comment = format!("{comment} {}", words.trim()).trim_start().to_owned();
            continue;
        } else if text.starts_with("#[") {
            attributes += text;
            continue;
        }
        let optional = attributes.contains("(default") || attributes.contains(", default");
        if let Some((name, is_enum)) = opening(line).filter(|(name, _)| name != UNTAGGED) {
            item = Some((is_enum, optional));
            let head = if is_enum {
                "| value | meaning |\n|---|---|"
            } else {
                "| key | value | meaning |\n|---|---|---|"
            };
            let _ = writeln!(page, "\n## {}\n\n{comment}\n\n{head}", heading(&name));
        } else if line == "}" {
            item = None;
        } else if let Some((is_enum, all_optional)) = item
            && let Some((name, kind)) = field_or_variant(text, is_enum)
        {
            let (name, meaning) = (kebab(&name.replace('_', "-")), cell(&comment));
            let value = value(if attributes.contains("quantity::size") { SIZE } else { kind }, &names);
            let is_optional = optional || all_optional || kind.starts_with("Option<");
            let must = if is_optional { "" } else { " **Required.**" };
            let _ = match is_enum {
                true => writeln!(page, "| `{name}` | {meaning} |"),
                false => writeln!(page, "| `{name}` | {value} | {meaning}{must} |"),
            };
        }
        comment.clear();
        attributes.clear();
    }
    page + &registered(registry)
}

const HEAD: &str = "\
# Keys of scenario files

Printed by `rc3-lab sim keys`; [SCENARIOS.md](../SCENARIOS.md) explains how to write and run a file.
";

/// The enum without names for its variants: [`value`] describes it.
const UNTAGGED: &str = "KickAssSpec";

/// Stands for the type of a number of bytes that is read as a size.
const SIZE: &str = "size";

/// The heading of an item.
fn heading(name: &str) -> String {
    match name.strip_suffix("Spec") {
        Some("") => "scenario file".to_owned(),
        Some(name) => kebab(name),
        None => kebab(name),
    }
}

/// The names of a registry.
fn registered(registry: &Registry) -> String {
    let mut page = String::from(
        "\n## Topologies\n\nNames for `topology.kind`.\n\n| name | network | keys |\n|---|---|---|\n",
    );
    for (name, entry) in &registry.topologies {
        let _ = writeln!(page, "| `{name}` | {} | {} |", cell(entry.about), quoted(entry.keys));
    }
    page += "\n## Queue disciplines\n\nNames for `queue.discipline`.\n\n| name | discipline |\n|---|---|\n";
    for (name, entry) in &registry.disciplines {
        let _ = writeln!(page, "| `{name}` | {} |", cell(entry.about));
    }
    page +=
        "\n## Congestion controllers\n\nNames for `scheme.congestion`.\n\n| name | controller |\n|---|---|\n";
    for (name, entry) in &registry.congestion {
        let _ = writeln!(page, "| `{name}` | {} |", cell(entry.about));
    }
    page += "\n## Bases\n\nNames for `base`; the file of each is in `crates/rc3-sim/src/scenario/bases`.\n\n| name | scenario |\n|---|---|\n";
    for (name, text) in super::BASES {
        let title = text.lines().find_map(|line| line.strip_prefix("title = ")).unwrap_or_default();
        let _ = writeln!(page, "| `{name}` | {} |", title.trim_matches('"'));
    }
    page
}

/// The name that `pub struct Name {` or `pub enum Name {` begins.
fn opening(line: &str) -> Option<(String, bool)> {
    let (rest, is_enum) = match line.strip_prefix("pub struct ") {
        Some(rest) => (rest, false),
        None => (line.strip_prefix("pub enum ")?, true),
    };
    Some((rest.strip_suffix(" {")?.to_owned(), is_enum))
}

/// The name of a field or a variant, and the type of a field.
fn field_or_variant(text: &str, is_enum: bool) -> Option<(&str, &str)> {
    let text = text.strip_suffix(',')?;
    match is_enum {
        true => Some((text.split(['(', ' ']).next()?, "")),
        false => text.strip_prefix("pub ")?.split_once(": "),
    }
}

/// `InitialWindow` and `initial_window` as `initial-window`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(character.to_ascii_lowercase());
    }
    text
}

/// A comment in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// What a file writes for a field of this type.
fn value(kind: &str, names: &[String]) -> String {
    let inner = |outer: &str| kind.strip_prefix(outer)?.strip_suffix('>');
    if let Some(inner) = inner("Option<") {
        return value(inner, names);
    }
    if let Some(inner) = inner("Vec<") {
        return format!("list of: {}", value(inner, names));
    }
    match kind {
        "String" => "text".to_owned(),
        "bool" => "`true` or `false`".to_owned(),
        "u8" | "u32" | "u64" | "usize" | "f64" | "Factor" => "number".to_owned(),
        "Rate" => "rate".to_owned(),
        "Duration" => "time".to_owned(),
        SIZE => "size".to_owned(),
        "Share" => "0 to 1".to_owned(),
        "BufferSize" => "`\"1bdp\"`, `\"5MB\"`, `\"100packets\"`, `\"unlimited\"`".to_owned(),
        "Rung" => "number or `\"rest\"`".to_owned(),
        "Fct" => "`connect-to-last-byte`, `connect-to-last-ack`".to_owned(),
        "toml::Table" | "Parameters" | "BTreeMap<String, f64>" => "table".to_owned(),
        "(u64, u64)" => "two numbers".to_owned(),
        "(Rate, Rate)" => "two rates".to_owned(),
        "(Duration, Duration)" => "two times".to_owned(),
        UNTAGGED => "`true`, `false` or list of: number".to_owned(),
        name if names.iter().any(|known| known == name) => {
            let heading = heading(name);
            format!("[{heading}](#{heading})")
        }
        other => format!("`{other}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_a_key_is_explained() {
        let page = page(&Registry::default());
        assert!(page.lines().filter(|line| line.starts_with("## ")).count() > 20, "{page}");
        for row in page.lines().filter(|line| line.starts_with("| `")) {
            assert!(!row.contains("|  |") && !row.contains("`Option") && !row.contains("::"), "{row}");
        }
        assert!(!page.contains("\n\n\n"), "an item has no comment: {page}");
    }

    #[test]
    fn keys_are_required_where_a_file_without_them_is_refused() {
        let page = page(&Registry::default());
        for line in [
            "| `initial-window` | number | Initial congestion window in packets. Default 4, of the library 10. A controller from outside the crate may ignore it. |",
            "| `name` | text | Name of the experiment, and of the folder with its results. **Required.** |",
            "| `chunk` | size | Each chunk. **Required.** |",
        ] {
            assert!(page.lines().any(|there| there == line), "{line}\nis missing in\n{page}");
        }
        assert!(page.lines().any(|line| line.starts_with("| `repetitions` |") && !line.contains("Required")));
        assert!(page.contains("| `dumbbell` | Two routers"));
    }
}
