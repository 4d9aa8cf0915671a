//! Scenarios on the keys of another one.

use std::{fs, path::Path};

use rc3_text::document::{Document, Fault, flatten, quoted};
use toml::{Table, Value};

use super::{ScenarioError, is_swept, set_for_all};

/// Names and files of the built-in bases.
pub const BASES: &[(&str, &str)] =
    &[("rc3", include_str!("bases/rc3.toml")), ("today", include_str!("bases/today.toml"))];

/// Bases of bases, at most.
const DEPTH_MAX: usize = 8;

/// The keys of a file on those of its base, if it has one. Lines are those of the file itself.
pub(super) fn on_base(document: Document) -> Result<Document, ScenarioError> {
    on(document, 0)
}

fn on(document: Document, depth: usize) -> Result<Document, ScenarioError> {
    let Some(Value::String(name)) = document.table().get("base").cloned() else { return Ok(document) };
    let fault = |message: String| document.error(Fault::new("base", message));
    if depth == DEPTH_MAX {
        return Err(fault("too many bases of bases".to_owned()));
    }
    let path = Path::new(document.file()).parent().unwrap_or_else(|| Path::new("")).join(&name);
    let (file, text) = match BASES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => (name, (*text).to_owned()),
        None => match fs::read_to_string(&path) {
            Ok(text) => (path.display().to_string(), text),
            Err(error) => {
                let known: Vec<&str> = BASES.iter().map(|(name, _)| *name).collect();
                return Err(fault(format!("{}: {error}; built in are {}", path.display(), quoted(&known))));
            }
        },
    };
    let base = on(Document::parse(&text, &file)?, depth + 1)?;
    let mut whole = base.for_file(&document);
    if let Some(schemes) = with_new_schemes(whole.table(), document.table()) {
        whole.set("scheme", schemes, None).map_err(|fault| document.error(fault))?;
    }
    for (key, value) in flatten(document.table()).into_iter().filter(|(key, _)| key != "base") {
        let (line, value) = (document.line(&key), value.clone());
        // A file may sweep what it also sets.
        match is_swept(document.table(), &key) {
            true => whole.set(&key, value, line),
            false => set_for_all(&mut whole, &key, value, line),
        }
        .map_err(|fault| document.error(fault))?;
    }
    Ok(whole)
}

/// The schemes of the base and those that a file adds as `scheme.NAME`. A number is the place of a known one, and without
/// `kind` the name is a mistake.
fn with_new_schemes(base: &Table, file: &Table) -> Option<Value> {
    let known = base.get("scheme")?.as_array()?;
    let is_new = |name: &str, scheme: &Value| {
        let named = |known: &Value| known.get("name").and_then(Value::as_str) == Some(name);
        scheme.get("kind").is_some() && name.parse::<usize>().is_err() && !known.iter().any(named)
    };
    let new = file.get("scheme")?.as_table()?.iter().filter(|(name, scheme)| is_new(name, scheme));
    let named =
        |name: &String| Value::Table(Table::from_iter([("name".to_owned(), Value::from(name.as_str()))]));
    Some(Value::Array(known.iter().cloned().chain(new.map(|(name, _)| named(name))).collect()))
}
