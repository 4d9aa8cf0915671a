#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    rc3_fuzz::control(input);
});
