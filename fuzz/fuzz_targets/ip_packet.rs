#![no_main]

#[path = "../src/packets.rs"]
#[expect(dead_code, reason = "the other targets are in there as well")]
mod packets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| packets::ip_packet(input));
