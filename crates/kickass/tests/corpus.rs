//! Replays the fuzzers' corpora, so that fixed bugs stay fixed without running a fuzzer.

#[path = "../../../fuzz/src/packets.rs"]
#[expect(clippy::disallowed_methods, reason = "the fuzzer needs some instant to start from")]
mod packets;
#[path = "../../../fuzz/tests/replay/mod.rs"]
mod replay;

use replay::replay;

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
