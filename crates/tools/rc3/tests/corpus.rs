//! Replays the fuzzer's corpora of messages, so that fixed bugs stay fixed without running a fuzzer.

use std::{fs, path::Path};

#[path = "../../../../fuzz/src/check.rs"]
mod check;
#[path = "../../../../fuzz/src/messages.rs"]
mod messages;
#[path = "../../../../fuzz/src/rows.rs"]
mod rows;

fn replay(name: &str, target: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(name);
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
fn messages_of_the_corpus_mean_the_same_when_written_again() {
    replay("messages", messages::messages);
}

#[test]
fn check_messages_of_the_corpus_mean_the_same_and_make_a_report() {
    replay("check", check::check);
}
