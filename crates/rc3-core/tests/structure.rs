//! The modules of this crate import each other without circles, and no room imports one above it (ARCHITECTURE.md).
//!
//! A module in a folder may use what the folder's own module defines: it is a part of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The path of a module: `laws::clock` is `["laws", "clock"]`.
type Module = Vec<String>;

/// The rooms of other folders that each room may import. `seams::tls` is a room of its own, which settings know.
const ROOMS: [(&str, &[&str]); 7] = [
    ("units", &[]),
    ("wire", &["units"]),
    ("structures", &["units"]),
    ("laws", &["units", "wire", "structures"]),
    ("seams::tls", &["units", "wire", "structures", "laws", "seams"]),
    ("settings", &["units", "wire", "structures", "laws", "seams", "seams::tls"]),
    ("seams", &["units", "settings", "wire", "structures", "laws", "seams::tls"]),
];

fn room(module: &[String]) -> &str {
    match module[0].as_str() {
        "units" | "quic" | "shows" => "units",
        "config" | "error" | "event" | "stats" | "transmit" | "datagram_meta" => "settings",
        "seams" if module.get(1).is_some_and(|seam| seam == "tls") => "seams::tls",
        folder => folder,
    }
}

/// Every module of the crate except its root, and the paths it imports or names.
#[derive(Default)]
struct Sources {
    paths: BTreeMap<Module, Vec<Vec<String>>>,
}

impl Sources {
    fn read(&mut self, folder: &Path, module: &Module) {
        for entry in fs::read_dir(folder).expect("the sources are here") {
            let path = entry.expect("the folder is readable").path();
            let name = path.file_stem().expect("files have names").to_string_lossy().into_owned();
            let mut own = module.clone();
            own.extend((name != "mod").then_some(name.clone()));
            if path.is_dir() {
                self.read(&path, &own);
            } else if !matches!(name.as_str(), "lib" | "internals" | "tests")
                && !own.contains(&"tests".into())
            {
                let text = fs::read_to_string(&path).expect("sources are text");
                self.paths.insert(own.clone(), imports(&own, &text));
            }
        }
    }

    /// The module that defines what a path names, through re-exports.
    fn owner(&self, path: &[String]) -> Option<Module> {
        let known =
            (1..=path.len()).rev().map(|len| &path[..len]).find(|own| self.paths.contains_key(*own))?;
        let item = path.get(known.len());
        let reexport =
            item.and_then(|item| self.paths[known].iter().find(|other| other.last() == Some(item)));
        match reexport.filter(|other| other.as_slice() != path) {
            Some(other) => self.owner(other),
            None => Some(known.to_vec()),
        }
    }

    /// The other modules that a module uses; not those that it is a part of.
    fn used(&self, module: &Module) -> BTreeSet<Module> {
        let owners = self.paths[module].iter().filter_map(|path| self.owner(path));
        owners.filter(|owner| !module.starts_with(owner)).collect()
    }
}

/// The absolute paths in a source text, outside its tests.
fn imports(module: &Module, text: &str) -> Vec<Vec<String>> {
    let text = text.split("#[cfg(test)]\nmod tests").next().expect("there is a first part");
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut found = Vec::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_none_or(|before| !before.is_alphanumeric() && before != ':' && before != '_') {
                expand(&[], &mut code[at..].chars().peekable(), &mut found);
            }
        }
    }
    found.into_iter().filter_map(|path| absolute(module, path)).collect()
}

/// Reads one path, or all paths of a tree in braces.
fn expand(prefix: &[String], rest: &mut std::iter::Peekable<std::str::Chars>, found: &mut Vec<Vec<String>>) {
    let mut path = prefix.to_vec();
    loop {
        while rest.next_if(|next| next.is_whitespace()).is_some() {}
        let mut name = String::new();
        while let Some(next) = rest.next_if(|next| next.is_alphanumeric() || *next == '_') {
            name.push(next);
        }
        if !name.is_empty() {
            path.push(name);
        }
        if rest.next_if_eq(&'{').is_some() {
            while rest.peek().is_some_and(|next| *next != '}') {
                expand(&path, rest, found);
                while rest.next_if(|next| *next == ',' || next.is_whitespace()).is_some() {}
            }
            rest.next();
            return;
        }
        if rest.next_if_eq(&':').is_none() || rest.next_if_eq(&':').is_none() {
            break;
        }
    }
    // The new name of an import.
    while rest.next_if(|next| !matches!(next, ',' | '}' | ';') && !prefix.is_empty()).is_some() {}
    found.push(path);
}

fn absolute(module: &Module, path: Vec<String>) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|name| *name == "super").count();
    let base: &[String] = match path[0].as_str() {
        "crate" => &[],
        "self" => module,
        _ => module.get(..module.len().checked_sub(supers)?)?,
    };
    let rest = &path[supers.max(1)..];
    Some(base.iter().chain(rest.iter().filter(|name| *name != "self")).cloned().collect())
}

fn sources() -> Sources {
    let mut sources = Sources::default();
    sources.read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &Vec::new());
    sources
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let sources = sources();
    let mut left: BTreeMap<Module, BTreeSet<Module>> =
        sources.paths.keys().map(|module| (module.clone(), sources.used(module))).collect();
    assert!(left.len() > 100 && left.values().any(|used| used.len() > 10), "the sources were not understood");
    // Modules that use no other one left are in no circle.
    while let Some(free) = left.iter().find(|(_, used)| !used.iter().any(|other| left.contains_key(other))) {
        let free = free.0.clone();
        left.remove(&free);
    }
    assert!(left.is_empty(), "in circles, or using such: {:#?}", left.keys().collect::<Vec<_>>());
}

#[test]
fn no_room_imports_one_above_it() {
    let sources = sources();
    for module in sources.paths.keys() {
        let own = room(module);
        // Machines know all.
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == own) else { continue };
        for used in sources.used(module) {
            let other = room(&used);
            assert!(
                other == own || allowed.contains(&other),
                "{} must not know {}: {other} is not below {own}",
                module.join("::"),
                used.join("::"),
            );
        }
    }
}
