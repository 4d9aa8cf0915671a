//! Replays the fuzzers' corpora in ordinary tests, so that fixed bugs stay fixed without running a fuzzer.

use std::{collections::BTreeMap, fs, path::Path};

/// Runs a target over each file of its corpus. Returns what it says of each, by the file's name.
pub(crate) fn replay<T>(name: &str, target: fn(&[u8]) -> T) -> BTreeMap<String, T> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpora =
        crate_folder.ancestors().map(|folder| folder.join("fuzz/corpus")).find(|corpora| corpora.is_dir());
    let corpus = corpora.expect("a checkout of the repository").join(name);
    let mut inputs = BTreeMap::new();
    for entry in fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display())) {
        let entry = entry.unwrap();
        println!("{}", entry.path().display());
        let said = target(&fs::read(entry.path()).unwrap());
        inputs.insert(entry.file_name().into_string().unwrap(), said);
    }
    assert!(!inputs.is_empty(), "{} is empty", corpus.display());
    inputs
}

/// Runs a target that says whether an input has no fault of form. Returns the names of those that have one: they should
/// have it on purpose. Inputs of an earlier version of the format would all be among them, and test nothing.
#[allow(dead_code, reason = "not all inputs have a format")]
pub(crate) fn faulty(name: &str, target: fn(&[u8]) -> bool) -> Vec<String> {
    let inputs = replay(name, target).into_iter();
    inputs.filter(|(_, is_faultless)| !is_faultless).map(|(input, _)| input).collect()
}
