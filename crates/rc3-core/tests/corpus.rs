//! Replays the fuzzers' corpora, so that fixed bugs stay fixed without running a fuzzer.

use std::{fs, path::Path};

#[path = "../../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "a crate of its own for the fuzzer")]
mod targets;

/// Runs a target over each file of its corpus.
fn replay(name: &str, target: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display())) {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        target(&fs::read(&path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", corpus.display());
}

#[test]
fn frames_of_the_corpus_parse_to_what_they_say() {
    replay("frames", targets::frames);
}

#[test]
fn sacks_of_the_corpus_fit_and_parse() {
    replay("sack", targets::sack);
}

#[test]
fn head_records_of_the_corpus_may_be_cut_anywhere() {
    replay("head", targets::head);
}

#[test]
fn control_frames_of_the_corpus_may_be_cut_anywhere() {
    replay("control", targets::control);
}

#[test]
fn operations_of_the_corpus_lose_and_change_nothing() {
    replay("operations", targets::operations::operations);
    replay("operations", targets::operations::operations_in_full);
}

#[test]
fn addresses_of_the_corpus_are_flooded_by_nobody() {
    replay("addresses", targets::addresses::addresses);
    replay("addresses", targets::addresses::addresses_in_full);
}

#[test]
fn datagrams_of_the_corpus_open_once_and_only_unchanged() {
    replay("open", targets::open);
}
