#![no_main]

#[path = "../src/bench.rs"]
mod bench;
#[path = "../src/rows.rs"]
mod rows;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bench::bench(input));
