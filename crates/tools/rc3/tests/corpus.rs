//! Replays the fuzzer's corpus of messages, so that fixed bugs stay fixed without running a fuzzer.

use std::{fs, path::Path};

#[path = "../../../../fuzz/src/messages.rs"]
mod messages;

#[test]
fn messages_of_the_corpus_mean_the_same_when_written_again() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/messages");
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display())) {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        messages::messages(&fs::read(&path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", corpus.display());
}
