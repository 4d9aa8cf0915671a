//! docs/DECISIONS.md: every entry is short, and every number that a file of the repository cites has an entry.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Words of an entry, its heading included.
const WORDS_MAX: usize = 80;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The number and the text of each entry.
fn entries(page: &str) -> Vec<(u32, &str)> {
    page.split("\n### ")
        .skip(1)
        .map(|rest| {
            let entry = rest.split("\n## ").next().unwrap_or_default();
            let number = entry.split('.').next().and_then(|number| number.parse().ok());
            (number.unwrap_or_else(|| panic!("an entry without a number: {entry}")), entry)
        })
        .collect()
}

/// A list of numbers at the start of `text`, such as `191 to 194` or `2, 93`; and what follows.
fn leading_numbers(mut text: &str) -> (Vec<u32>, &str) {
    let mut numbers = Vec::new();
    loop {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(number) = text[..digits].parse() else { return (numbers, text) };
        numbers.push(number);
        text = &text[digits..];
        match [", ", " and ", " to "].iter().find_map(|separator| text.strip_prefix(separator)) {
            Some(next) => text = next,
            None => return (numbers, text),
        }
    }
}

/// The numbers after the name of the page or the word "decision".
fn cited_by_name(text: &str) -> Vec<u32> {
    let words: Vec<&str> =
        text.split_whitespace().filter(|word| !matches!(*word, "//" | "///" | "//!" | "#")).collect();
    let text = words.join(" ");
    let after = |name: &str| {
        text.split(name)
            .skip(1)
            .flat_map(|rest| {
                let rest = rest.strip_prefix(".md").unwrap_or(rest);
                let rest = rest.strip_prefix("s").unwrap_or(rest);
                leading_numbers(rest.trim_start_matches([' ', ',', '(', ')', '[', ']', '`'])).0
            })
            .collect::<Vec<_>>()
    };
    [after("DECISIONS"), after("decision")].concat()
}

/// The numbers of lists alone in parentheses.
fn cited_in_parentheses(text: &str) -> Vec<u32> {
    let lists = text.split('(').skip(1).map(leading_numbers);
    lists.filter(|(_, rest)| rest.starts_with(')')).flat_map(|(numbers, _)| numbers).collect()
}

/// The files below `folder` that people write.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "corpus"].contains(&name.as_str()) {
                sources(&path, into);
            }
        } else if ["md", "rs", "toml", "sh", "py", "pyi"]
            .iter()
            .any(|end| path.extension().is_some_and(|is| is == *end))
        {
            into.push(path);
        }
    }
}

#[test]
fn every_cited_decision_exists() {
    let page = fs::read_to_string(repository().join("docs/DECISIONS.md")).unwrap();
    let known: BTreeSet<u32> = entries(&page).into_iter().map(|(number, _)| number).collect();
    let mut files = Vec::new();
    sources(&repository(), &mut files);
    let mut gone = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let mut cited = cited_by_name(&text);
        if ["DECISIONS.md", "QUINN_PROTO.md"].iter().any(|name| file.ends_with(name)) {
            cited.append(&mut cited_in_parentheses(&text));
        }
        gone.extend(
            cited.into_iter().filter(|number| !known.contains(number)).map(|number| (file.clone(), number)),
        );
    }
    assert!(gone.is_empty(), "no such decision: {gone:?}");
}

#[test]
fn no_decision_is_long_and_none_has_the_number_of_another() {
    let page = fs::read_to_string(repository().join("docs/DECISIONS.md")).unwrap();
    let mut numbers = BTreeSet::new();
    for (number, entry) in entries(&page) {
        let words = entry.split_whitespace().count();
        assert!(words <= WORDS_MAX, "decision {number} has {words} words");
        assert!(numbers.insert(number), "two decisions have the number {number}");
    }
}
