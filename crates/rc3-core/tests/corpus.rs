//! Replays the fuzzers' corpora, so that fixed bugs stay fixed without running a fuzzer.

#[path = "../../../fuzz/tests/replay/mod.rs"]
mod replay;
#[path = "../../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "a crate of its own for the fuzzer")]
mod targets;

use replay::replay;

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
