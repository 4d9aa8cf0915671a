//! A TOML file as a tree of keys: parsed, changed, and deserialized. Errors include the line of the key.
//!
//! Keys are dotted, `workload.load`. In an array, a part of a key is an index, or the `name` of a table in it:
//! `scheme.rc3.paced` and `scheme.0.paced`.

use std::{collections::BTreeMap, fmt};

use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use thiserror::Error;
use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

/// Why a file is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct DocumentError {
    /// The file's name as given.
    pub file: String,
    /// The line, counted from 1; `None` for keys set afterwards.
    pub line: Option<usize>,
    /// The dotted key; empty if the error concerns the whole file.
    pub key: String,
    /// The problem, possibly with a suggestion.
    pub message: String,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": `{}`", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The problem of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The key, dotted.
    pub key: String,
    /// The problem.
    pub message: String,
}

impl Fault {
    /// A problem of one key.
    pub fn new(key: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { key: key.into(), message: message.to_string() }
    }

    /// Nothing if this holds.
    ///
    /// # Errors
    /// Otherwise a problem of one key.
    pub fn unless(holds: bool, key: impl Into<String>, message: impl fmt::Display) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::new(key, message)) }
    }
}

/// The document.
///
/// ```
/// use rc3_text::document::Document;
///
/// let mut document = Document::parse("name = \"load\"\n[workload]\nload = 0.3\n", "load.toml")?;
/// assert_eq!(document.line("workload.load"), Some(3));
/// document.set("workload.load", 0.5.into(), None).unwrap();
/// assert!(document.text().contains("load = 0.5"));
///
/// let error = Document::parse("name = load", "load.toml").unwrap_err();
/// assert!(error.to_string().starts_with("load.toml:1: "), "{error}");
/// # Ok::<(), rc3_text::document::DocumentError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    file: String,
    table: Table,
    /// The line of each key; keys set afterwards have none.
    lines: BTreeMap<String, Option<usize>>,
}

impl Document {
    /// Parses a file; `file` is its name in errors.
    ///
    /// # Errors
    /// If it is not valid TOML.
    pub fn parse(text: &str, file: &str) -> Result<Self, DocumentError> {
        let error = |error: toml::de::Error| DocumentError {
            file: file.to_owned(),
            line: error.span().map(|span| line_of(text, span.start)),
            key: String::new(),
            message: error.message().to_owned(),
        };
        let tree = DeTable::parse(text).map_err(error)?;
        let mut lines = BTreeMap::new();
        lines_of_table(tree.get_ref(), text, "", &mut lines);
        let table = toml::from_str(text).map_err(error)?;
        Ok(Self { file: file.to_owned(), table, lines })
    }

    /// The file's name as given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Its keys.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The same keys for a file that is to change some of them, with the lines of that file.
    pub fn for_file(&self, file: &Self) -> Self {
        Self { file: file.file.clone(), table: self.table.clone(), lines: file.lines.clone() }
    }

    /// The document as TOML text.
    pub fn text(&self) -> String {
        self.table.to_string()
    }

    /// The line of a key.
    pub fn line(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied().flatten()
    }

    /// Sets `key` to `value`, and makes the tables above it that are missing; `line` is the value's line if it comes
    /// from a file.
    ///
    /// # Errors
    /// If a part of the key is empty, leads through a value without keys, or names nothing in its array.
    pub fn set(&mut self, key: &str, value: Value, line: Option<usize>) -> Result<(), Fault> {
        let mut parts: Vec<&str> = key.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        if last.is_empty() || parts.iter().any(|part| part.is_empty()) {
            return Err(Fault::new(key, "not a key, write for example `workload.load`"));
        }
        let mut path = String::new();
        let mut at = Container::Table(&mut self.table);
        for part in parts {
            at = at
                .enter(part, &mut path)
                .ok_or_else(|| Fault::new(key, format!("there is no table `{part}`")))?;
        }
        let slot =
            at.slot(last, &mut path).ok_or_else(|| Fault::new(key, format!("there is no `{last}`")))?;
        *slot = value;
        // The keys below the old value disappear.
        self.lines.retain(|known, _| !known.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.')));
        self.lines.insert(path, line);
        Ok(())
    }

    /// Deserializes the document.
    ///
    /// # Errors
    /// If a key is unknown or missing, or has an invalid value.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        serde_path_to_error::deserialize(Value::Table(self.table.clone())).map_err(|error| {
            let parts = error.path().iter().filter_map(|segment| match segment {
                Segment::Seq { index } => Some(index.to_string()),
                Segment::Map { key } => Some(key.clone()),
                Segment::Enum { variant } => Some(variant.clone()),
                Segment::Unknown => None,
            });
            let mut key = parts.collect::<Vec<_>>().join(".");
            let message = error.inner().message().to_owned();
            if let Some(field) = missing_field(&message) {
                let table = if key.is_empty() { "the file".to_owned() } else { format!("`{key}`") };
                return self.error(Fault::new(key, format!("{table} lacks the key `{field}`")));
            }
            if let Some(field) = unknown_field(&message).filter(|field| !ends_with(&key, field)) {
                key = if key.is_empty() { field.to_owned() } else { format!("{key}.{field}") };
            }
            self.error(Fault::new(key, with_hint(&message)))
        })
    }

    /// Adds the line of the key, or of the table around it.
    pub fn error(&self, fault: Fault) -> DocumentError {
        let Fault { key, message } = fault;
        let line = prefixes(&key).find_map(|prefix| self.lines.get(prefix)).copied().flatten();
        DocumentError { file: self.file.clone(), line, key, message }
    }
}

/// A table or an array of the document.
enum Container<'a> {
    Table(&'a mut Table),
    Array(&'a mut Vec<Value>),
}

impl<'a> Container<'a> {
    /// The table or array at a part of a key, whose path is appended to `path`. A missing table is created.
    fn enter(self, part: &str, path: &mut String) -> Option<Self> {
        let slot = match self {
            Self::Table(table) if !table.contains_key(part) => {
                table.insert(part.to_owned(), Value::Table(Table::new()));
                append(path, part);
                table.get_mut(part)
            }
            place => place.slot(part, path),
        };
        match slot? {
            Value::Table(table) => Some(Self::Table(table)),
            Value::Array(array) => Some(Self::Array(array)),
            _ => None,
        }
    }

    /// Where the value of a part of a key is or will be.
    fn slot(self, part: &str, path: &mut String) -> Option<&'a mut Value> {
        match self {
            Self::Table(table) => {
                append(path, part);
                Some(table.entry(part).or_insert(Value::Boolean(false)))
            }
            Self::Array(array) => {
                let named = |value: &Value| value.get("name").and_then(Value::as_str) == Some(part);
                let at = array.iter().position(named).or_else(|| part.parse().ok())?;
                append(path, &at.to_string());
                array.get_mut(at)
            }
        }
    }
}

fn append(path: &mut String, part: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(part);
}

/// The dotted keys of nested tables, with their values: `a.b = 1` and `"a.b" = 1` alike.
pub fn flatten(table: &Table) -> Vec<(String, &Value)> {
    let mut keys = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(table) => {
                keys.extend(flatten(table).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            value => keys.push((key.clone(), value)),
        }
    }
    keys
}

fn lines_of_table(table: &DeTable<'_>, text: &str, path: &str, lines: &mut BTreeMap<String, Option<usize>>) {
    for (key, value) in table {
        let mut path = path.to_owned();
        append(&mut path, key.get_ref());
        let line = line_of(text, key.span().start);
        lines_of_value(value.get_ref(), text, &path, line, lines);
    }
}

fn lines_of_value(
    value: &DeValue<'_>,
    text: &str,
    path: &str,
    line: usize,
    lines: &mut BTreeMap<String, Option<usize>>,
) {
    lines.insert(path.to_owned(), Some(line));
    if let Some(table) = value.as_table() {
        lines_of_table(table, text, path, lines);
    }
    for (n, element) in value.as_array().into_iter().flatten().enumerate() {
        let line = line_of(text, element.span().start);
        lines_of_value(element.get_ref(), text, &format!("{path}.{n}"), line, lines);
    }
}

/// The line, counted from 1, of a place in the text.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}

/// `a.b.c`, `a.b`, `a`.
fn prefixes(key: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(key), |key| key.rsplit_once('.').map(|(prefix, _)| prefix))
}

fn ends_with(key: &str, part: &str) -> bool {
    key == part || key.strip_suffix(part).is_some_and(|rest| rest.ends_with('.'))
}

fn unknown_field(message: &str) -> Option<&str> {
    message.strip_prefix("unknown field `")?.split('`').next()
}

fn missing_field(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.split('`').next()
}

/// serde lists all names it knows; users need the one they meant.
fn with_hint(message: &str) -> String {
    let message = message.trim_end();
    for (start, what) in [("unknown field `", "unknown key"), ("unknown variant `", "unknown value")] {
        let Some((written, known)) = message.strip_prefix(start).and_then(|rest| rest.split_once('`')) else {
            continue;
        };
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        return match nearest(written, &known) {
            Some(name) => format!("{what} `{written}`, did you mean `{name}`?"),
            None => format!("{what} `{written}`, known are {}", quoted(&known)),
        };
    }
    message.to_owned()
}

/// The known name that the user probably meant.
pub fn nearest<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |name: &&&str| strsim::damerau_levenshtein(written, name);
    let name = known.iter().min_by_key(distance)?;
    (strsim::damerau_levenshtein(written, name) <= 1 + name.len() / 4).then_some(*name)
}

/// Names in backquotes, separated by commas.
pub fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
