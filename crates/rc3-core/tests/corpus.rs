//! Replays the fuzzers' corpora, so that fixed bugs stay fixed without running a fuzzer.

#[path = "../../../fuzz/tests/replay/mod.rs"]
mod replay;
#[path = "../../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "a crate of its own for the fuzzer")]
mod targets;

use replay::{faulty, replay};

#[test]
fn frames_of_the_corpus_parse_to_what_they_say() {
    let hostile = [
        "beyond_the_final_size",
        "empty_sack",
        "past_the_last_offset",
        "sack_of_huge_count",
        "sack_with_empty_gap",
        "unknown_type",
    ];
    assert_eq!(faulty("frames", targets::frames), hostile);
}

#[test]
fn sacks_of_the_corpus_fit_and_parse() {
    replay("sack", targets::sack);
}

#[test]
fn head_records_of_the_corpus_may_be_cut_anywhere() {
    let hostile = ["empty_record", "empty_skip", "past_the_last_offset", "truncated_run"];
    assert_eq!(faulty("head", targets::head), hostile);
}

#[test]
fn control_frames_of_the_corpus_may_be_cut_anywhere() {
    let hostile = [
        "early_secret_too_short",
        "no_settings_first",
        "payload_too_long",
        "payload_too_short",
        "receiver_id_too_short",
        "setting_twice",
        "settings_twice",
        "too_long",
    ];
    assert_eq!(faulty("control", targets::control), hostile);
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
