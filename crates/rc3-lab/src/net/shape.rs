//! Traces of rates that change, made from a few numbers.

use std::{f64::consts::TAU, time::Duration};

use clap::ValueEnum;
use rand_pcg::{
    Pcg64,
    rand_core::{Rng, SeedableRng},
};
use rc3_link::{Trace, TraceError, random::unit};

use super::args::NetTraceArgs;

/// Parts of a period in which a walk keeps its rate.
const WALK_PARTS: f64 = 10.0;
/// How far a walk goes in one of them, as a share of the logarithm of the range.
const WALK_STEP: f64 = 0.3;
/// Share of a period without delivery at a handover.
const GAP: f64 = 0.05;

/// How the rate changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// Low and high in turn.
    Steps,
    /// Up and down.
    Sine,
    /// At random.
    Walk,
    /// High, with gaps.
    Handover,
}

/// The trace that was asked for.
///
/// # Errors
/// If it would deliver nothing.
pub fn trace(wanted: &NetTraceArgs) -> Result<Trace, TraceError> {
    let (low, high) = (wanted.low.bits_per_second() as f64, wanted.high.bits_per_second() as f64);
    let period = wanted.period.as_secs_f64().max(1e-3);
    let phase = |at: Duration| at.as_secs_f64() / period % 1.0;
    match wanted.shape {
        Shape::Steps => Trace::of_rate(wanted.time, |at| if phase(at) < 0.5 { low } else { high }),
        Shape::Sine => {
            Trace::of_rate(wanted.time, |at| low + (high - low) * (1.0 - (TAU * phase(at)).cos()) / 2.0)
        }
        Shape::Handover => Trace::of_rate(wanted.time, |at| if phase(at) < 1.0 - GAP { high } else { 0.0 }),
        Shape::Walk => {
            let rates = walk(wanted, low, high, period);
            Trace::of_rate(wanted.time, |at| rates[(at.as_secs_f64() / period * WALK_PARTS) as usize])
        }
    }
}

/// Rates one after the other: logarithms take steps of random length and are reflected at the ends.
fn walk(wanted: &NetTraceArgs, low: f64, high: f64, period: f64) -> Vec<f64> {
    let mut random = Pcg64::seed_from_u64(wanted.seed);
    let parts = (wanted.time.as_secs_f64() / period * WALK_PARTS) as usize + 1;
    let mut place = 0.5;
    let mut next = || {
        place += (unit(random.next_u64()) * 2.0 - 1.0) * WALK_STEP;
        place = if place < 0.0 {
            -place
        } else if place > 1.0 {
            2.0 - place
        } else {
            place
        };
        low * (high / low).powf(place)
    };
    (0..parts).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        trace: NetTraceArgs,
    }

    fn mean(words: &str) -> f64 {
        let typed = Typed::parse_from(["x", "file"].into_iter().chain(words.split_whitespace()));
        trace(&typed.trace).unwrap().mean_rate().bits_per_second() as f64 / 1e6
    }

    #[test]
    fn means_are_those_of_the_shapes() {
        let near = |words: &str, expected: f64| {
            let mean = mean(words);
            assert!((mean / expected - 1.0).abs() < 0.01, "{words}: {mean}");
        };
        near("--shape steps --low 10mbit --high 30mbit --time 10s", 20.0);
        near("--shape sine --low 10mbit --high 30mbit --time 10s", 20.0);
        near("--shape handover --high 20mbit --time 20s --period 10s", 19.0);
        let walked = mean("--shape walk --low 5mbit --high 50mbit --time 100s");
        assert!((5.0..50.0).contains(&walked), "{walked}");
        assert_eq!(walked, mean("--shape walk --low 5mbit --high 50mbit --time 100s"), "a seed repeats");
        assert_ne!(walked, mean("--shape walk --low 5mbit --high 50mbit --time 100s --seed 2"));
    }
}
