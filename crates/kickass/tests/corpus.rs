//! Replays the fuzzers' corpora, so that fixed bugs stay fixed without running a fuzzer.

use std::{fs, path::Path};

#[path = "../../../fuzz/src/packets.rs"]
#[expect(clippy::disallowed_methods, reason = "the fuzzer needs some instant to start from")]
mod packets;

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
fn packets_of_the_corpus_come_together_again() {
    replay("ip_packet", packets::ip_packet);
}

#[test]
fn super_packets_of_the_corpus_are_their_segments() {
    replay("offload", packets::offload);
}

#[test]
fn routers_of_the_corpus_account_for_everything() {
    replay("router", packets::router);
}
