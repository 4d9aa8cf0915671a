//! The page of all keys of scenario files, made from the comments of `spec.rs` and from a registry.
//!
//! The source is parsed line by line, in the shape that rustfmt gives it: an item with its comment, then fields or variants with
//! theirs. docs/reproduction/keys.md is this page for the built-in names; a test holds them equal.

use std::fmt::Write;

use rc3_text::document::quoted;

use crate::registry::Registry;

/// A struct or an enum of `spec.rs`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    name: String,
    comment: String,
    is_enum: bool,
    /// Fields or variants.
    parts: Vec<Part>,
}

/// A field or a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: String,
    /// Of a field.
    kind: String,
    comment: String,
    /// Whether a file may leave it out.
    optional: bool,
}

/// The page as Markdown.
pub fn page(registry: &Registry) -> String {
    let items = items(include_str!("spec.rs"));
    let mut page = String::from(HEAD);
    for item in items.iter().filter(|item| item.name != UNTAGGED) {
        let _ = write!(page, "\n## {}\n\n{}\n\n", heading(&item.name), item.comment);
        page += if item.is_enum {
            "| value | meaning |\n|---|---|\n"
        } else {
            "| key | value | meaning |\n|---|---|---|\n"
        };
        for part in &item.parts {
            let name = kebab(&part.name.replace('_', "-"));
            let _ = match item.is_enum {
                true => writeln!(page, "| `{name}` | {} |", cell(&part.comment)),
                false => {
                    let must = if part.optional { "" } else { " **Required.**" };
                    writeln!(
                        page,
                        "| `{name}` | {} | {}{must} |",
                        value(&part.kind, &items),
                        cell(&part.comment)
                    )
                }
            };
        }
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

/// The public items of a source file, in its order.
fn items(source: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut open = false;
    let (mut comment, mut optional, mut size) = (Vec::new(), false, false);
    for line in source.lines() {
        let text = line.trim();
        if let Some(words) = text.strip_prefix("///") {
            comment.push(words.trim().to_owned());
        } else if text.starts_with("#[") {
            optional |= text.contains("(default") || text.contains(", default");
            size |= text.contains("quantity::size") || text.contains("quantity::optional_size");
        } else if let Some((name, is_enum)) = opening(line) {
            // A struct with this attribute has no required field.
            let item = Item { name, comment: join(&mut comment), is_enum, parts: Vec::new() };
            items.push(item);
            open = true;
            if std::mem::take(&mut optional) {
                items.last_mut().expect("pushed").parts.push(Part::all_optional());
            }
        } else if line == "}" {
            open = false;
        } else if let Some(item) = items.last_mut().filter(|_| open) {
            if let Some(part) = part(text, item.is_enum) {
                let optional = std::mem::take(&mut optional) || part.kind.starts_with("Option<");
                let kind = if std::mem::take(&mut size) { SIZE.to_owned() } else { part.kind };
                item.parts.push(Part { kind, comment: join(&mut comment), optional, ..part });
            }
        } else {
            comment.clear();
            optional = false;
        }
    }
    items.iter_mut().for_each(Item::settle);
    items
}

impl Part {
    /// Stands for the attribute of a struct all of whose fields have defaults.
    fn all_optional() -> Self {
        Self { name: String::new(), kind: String::new(), comment: String::new(), optional: true }
    }
}

impl Item {
    /// Applies the attribute of the whole struct.
    fn settle(&mut self) {
        if self.parts.first().is_some_and(|part| part.name.is_empty()) {
            self.parts.remove(0);
            self.parts.iter_mut().for_each(|part| part.optional = true);
        }
    }
}

fn join(comment: &mut Vec<String>) -> String {
    std::mem::take(comment).join(" ")
}

/// The name that `pub struct Name {` or `pub enum Name {` begins.
fn opening(line: &str) -> Option<(String, bool)> {
    let (rest, is_enum) = match line.strip_prefix("pub struct ") {
        Some(rest) => (rest, false),
        None => (line.strip_prefix("pub enum ")?, true),
    };
    Some((rest.strip_suffix(" {")?.to_owned(), is_enum))
}

fn part(text: &str, is_enum: bool) -> Option<Part> {
    let text = text.strip_suffix(',')?;
    let (name, kind) = match is_enum {
        true => (text.split(['(', ' ']).next()?, ""),
        false => text.strip_prefix("pub ")?.split_once(": ")?,
    };
    Some(Part { name: name.to_owned(), kind: kind.to_owned(), comment: String::new(), optional: false })
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
fn value(kind: &str, items: &[Item]) -> String {
    let inner = |outer: &str| kind.strip_prefix(outer)?.strip_suffix('>');
    if let Some(inner) = inner("Option<") {
        return value(inner, items);
    }
    if let Some(inner) = inner("Vec<") {
        return format!("list of: {}", value(inner, items));
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
        "Fct" => "`connect-to-last-byte`, `data-to-last-byte`, `connect-to-last-ack`".to_owned(),
        "toml::Table" | "Parameters" | "BTreeMap<String, f64>" => "table".to_owned(),
        "(f64, f64)" | "(u64, u64)" => "two numbers".to_owned(),
        "(Duration, Duration)" => "two times".to_owned(),
        UNTAGGED => "`true`, `false` or list of: number".to_owned(),
        name if items.iter().any(|item| item.name == name) => {
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
        let items = items(include_str!("spec.rs"));
        assert!(items.len() > 20, "{}", items.len());
        for item in &items {
            assert!(!item.comment.is_empty() && !item.parts.is_empty(), "{}", item.name);
            for part in &item.parts {
                assert!(!part.comment.is_empty(), "{}.{}", item.name, part.name);
                let value = value(&part.kind, &items);
                assert!(
                    item.is_enum || !value.contains("`Option") && !value.contains("::"),
                    "{}: {value}",
                    part.name
                );
            }
        }
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
