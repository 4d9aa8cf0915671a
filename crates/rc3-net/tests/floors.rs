//! The modules of the crate stand on floors, and import only from floors below their own: no circles, and a reader who
//! starts at the bottom needs nothing from above.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

/// The top-level modules, the lowest floor first. `faulty` and `skip` are for tests.
const FLOORS: [&[&str]; 17] = [
    &["sums"],
    &["error", "handed_over", "marks", "qlog", "runtime", "sync", "waiters", "zero_rtt"],
    &["paths", "relay", "socket", "wake"],
    &["bound", "keeper", "metrics"],
    &["workers"],
    &["state"],
    &["shared"],
    &["connection_handle", "driver", "endpoint_ref"],
    &["named_future", "stream_ref"],
    &["datagram", "recv_stream", "send_stream"],
    &["file", "open"],
    &["connection"],
    &["connecting"],
    &["incoming"],
    &["endpoint", "slots"],
    &["stream", "takeover"],
    &["faulty", "listener", "skip"],
];

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// The source without comments and tests.
fn code(source: &str) -> String {
    let tests = ["#[cfg(test)]\nmod tests {", "rc3_portable)))]\nmod tests {"];
    let end = tests.iter().filter_map(|start| source.find(start)).min().unwrap_or(source.len());
    let lines = source[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// What follows each `crate::`, of a group in braces the first word of each member.
fn imports(code: &str) -> Vec<String> {
    let word =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut found = Vec::new();
    for after in code.split("crate::").skip(1) {
        let Some(group) = after.strip_prefix('{') else {
            found.push(word(after));
            continue;
        };
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    found.push(word(&group[start..at]));
                    start = at + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    found.retain(|name: &String| !name.is_empty());
    found
}

/// The sources of a module: a file, or all below a folder.
fn sources(path: &Path) -> Vec<String> {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap();
        return entries.flat_map(|entry| sources(&entry.unwrap().path())).collect();
    }
    vec![fs::read_to_string(path).unwrap()]
}

#[test]
fn modules_import_only_from_floors_below() {
    let mut wrong = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap();
        if module == "lib" {
            continue;
        }
        let Some(own) = floor(module) else {
            wrong.push(format!("{module} has no floor"));
            continue;
        };
        let names = sources(&path).into_iter().flat_map(|source| imports(&code(&source)));
        for name in names.filter(|name| name != module) {
            match floor(&name) {
                Some(other) if other < own => {}
                Some(_) => wrong.push(format!("{module} imports {name}, which is not below it")),
                None => wrong.push(format!("{module} imports {name}, which is no module with a floor")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_parser_finds_modules_in_groups_and_paths() {
    let source =
        "use crate::{\n a::{B, c::{D, E}},\n f,\n};\nuse crate::g::H;\n// crate::no\nlet x = crate::i::j();";
    assert_eq!(imports(&code(source)), ["a", "f", "g", "i"]);
}
