//! Small worlds in virtual time, one after another: the fuzzer's claims about whole connections, without a fuzzer.

use std::{fs, iter, panic, path::Path, time::Instant};

use rc3_link::random::{Random, derive};

use crate::Result;

// The fuzzer's small worlds are not used here.
#[allow(dead_code)]
#[path = "../../../../fuzz/src/operations.rs"]
#[expect(unreachable_pub, reason = "a crate of its own for the fuzzer")]
mod operations;

/// Bytes from which the operations of one world are made.
const INPUT_MAX: usize = 1500;

/// Runs worlds until it is time to stop.
pub(crate) fn run(seed: u64, until: Instant) -> Result<()> {
    let mut worlds = 0;
    while Instant::now() < until {
        live(seed, worlds, &input(seed, worlds))?;
        worlds += 1;
    }
    println!("{worlds} worlds");
    if worlds == 0 { Err("no world was run".into()) } else { Ok(()) }
}

/// Runs one world and, if asked to, keeps its input first.
pub(crate) fn run_one(seed: u64, world: u64, save: Option<&Path>) -> Result<()> {
    let input = input(seed, world);
    if let Some(path) = save {
        fs::write(path, &input)?;
    }
    live(seed, world, &input)
}

fn input(seed: u64, world: u64) -> Vec<u8> {
    let mut random = Random::new(derive(seed, world));
    let len = 1 + random.below(INPUT_MAX);
    iter::repeat_with(|| random.bits().to_le_bytes()).flatten().take(len).collect()
}

fn live(seed: u64, world: u64, input: &[u8]) -> Result<()> {
    panic::catch_unwind(|| operations::operations_in_full(input))
        .map_err(|_| format!("world {world}, again by --simulated --seed {seed} --world {world}").into())
}
