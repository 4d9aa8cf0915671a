#![no_main]

#[path = "../src/forwarder.rs"]
mod forwarder;

libfuzzer_sys::fuzz_target!(|input: &[u8]| forwarder::forwarder(input));
