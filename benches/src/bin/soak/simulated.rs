//! Small worlds in virtual time, one after another: the fuzzer's claims about whole connections, without a fuzzer.

use std::{panic, time::Instant};

use crate::random::Random;

#[path = "../../../../fuzz/src/operations.rs"]
#[expect(unreachable_pub, reason = "a crate of its own for the fuzzer")]
mod operations;

/// Bytes from which the operations of one world are made.
const INPUT_MAX: u64 = 1500;

/// Runs worlds until it is time to stop.
pub(crate) fn run(seed: u64, until: Instant) -> Result<(), String> {
    let mut worlds = 0;
    while Instant::now() < until {
        let mut random = Random::new(seed, worlds);
        let mut input = vec![0; 1 + random.below(INPUT_MAX) as usize];
        random.fill(&mut input);
        panic::catch_unwind(|| operations::operations(&input)).map_err(|_| format!("world {worlds}"))?;
        worlds += 1;
    }
    println!("{worlds} worlds");
    Ok(())
}
