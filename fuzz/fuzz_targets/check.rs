#![no_main]

#[path = "../src/check.rs"]
mod check;
#[path = "../src/rows.rs"]
mod rows;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::check(input);
});
