//! Replays the fuzzers' corpora in ordinary tests, so that fixed bugs stay fixed without running a fuzzer.

use std::{fs, path::Path};

/// Runs a target over each file of its corpus.
pub(crate) fn replay(name: &str, target: fn(&[u8])) {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpora =
        crate_folder.ancestors().map(|folder| folder.join("fuzz/corpus")).find(|corpora| corpora.is_dir());
    let corpus = corpora.expect("a checkout of the repository").join(name);
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display())) {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        target(&fs::read(&path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", corpus.display());
}
