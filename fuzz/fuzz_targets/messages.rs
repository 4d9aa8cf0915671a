#![no_main]

#[path = "../src/messages.rs"]
mod messages;
#[path = "../src/rows.rs"]
mod rows;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    messages::messages(input);
});
