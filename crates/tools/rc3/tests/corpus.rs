//! Replays the fuzzer's corpora of messages, so that fixed bugs stay fixed without running a fuzzer.

#[path = "../../../../fuzz/src/check.rs"]
mod check;
#[path = "../../../../fuzz/src/messages.rs"]
mod messages;
#[path = "../../../../fuzz/tests/replay/mod.rs"]
mod replay;
#[path = "../../../../fuzz/src/rows.rs"]
mod rows;

use replay::faulty;

#[test]
fn messages_of_the_corpus_mean_the_same_when_written_again() {
    assert_eq!(faulty("messages", messages::messages), ["sender-cut", "too-long"]);
}

#[test]
fn check_messages_of_the_corpus_mean_the_same_and_make_a_report() {
    assert_eq!(faulty("check", check::check), ["levels-too-many", "plan-cut", "too-long"]);
}
