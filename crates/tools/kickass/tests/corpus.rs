//! Replays the fuzzer's corpus of the forwarder, and feeds the same target random inputs.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

use proptest::prelude::*;

#[path = "../../../../fuzz/src/forwarder.rs"]
mod forwarder;
#[path = "../../../../fuzz/tests/replay/mod.rs"]
mod replay;

use replay::replay;

#[test]
fn packets_of_the_corpus_are_counted_and_bounded() {
    replay("forwarder", forwarder::forwarder);
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
