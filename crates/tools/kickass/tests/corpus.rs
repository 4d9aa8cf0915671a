//! Replays the fuzzer's corpus of the forwarder, and feeds the same target random inputs.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use proptest::prelude::*;

#[path = "../../../../fuzz/src/forwarder.rs"]
mod forwarder;

#[test]
fn packets_of_the_corpus_are_counted_and_bounded() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/forwarder");
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display())) {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        forwarder::forwarder(&fs::read(&path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", corpus.display());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn packets_of_any_kind_in_any_order_are_counted_and_bounded(
        input in proptest::collection::vec(any::<u8>(), 0..4000),
    ) {
        forwarder::forwarder(&input);
    }
}
