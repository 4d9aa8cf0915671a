//! Flows of others: Poisson arrivals, Pareto sizes, a TCP connection each.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use rand_pcg::{
    Pcg64,
    rand_core::{Rng, SeedableRng},
};
use rc3_core::units::Rate;
use rc3_link::random::unit;

use super::long;
use crate::sockets::{
    clock,
    contenders::{Result, connect_tcp},
};

/// Pareto with this shape between these sizes, in bytes.
const SHAPE: f64 = 1.2;
const SMALLEST: f64 = 10_000.0;
const LARGEST: f64 = 3_000_000.0;

/// Sizes of flows and the times between their arrivals.
#[derive(Debug)]
pub(super) struct Draws {
    random: Pcg64,
    mean_gap: f64,
}

impl Draws {
    pub(super) fn new(rate: Rate, seed: u64) -> Self {
        let mean_gap = mean_size() * 8.0 / rate.bits_per_second() as f64;
        Self { random: Pcg64::seed_from_u64(seed), mean_gap }
    }

    /// The time until a flow arrives, and its bytes.
    pub(super) fn next(&mut self) -> (Duration, u64) {
        let mut share = || unit(self.random.next_u64());
        let gap = -self.mean_gap * (1.0 - share()).ln();
        // The inverse of the bounded Pareto distribution.
        let least = (SMALLEST / LARGEST).powf(SHAPE);
        let bytes = SMALLEST / (1.0 - share() * (1.0 - least)).powf(1.0 / SHAPE);
        (Duration::from_secs_f64(gap), bytes as u64)
    }
}

/// Of the bounded Pareto distribution.
fn mean_size() -> f64 {
    let least = (SMALLEST / LARGEST).powf(SHAPE);
    let spread = SMALLEST.powf(1.0 - SHAPE) - LARGEST.powf(1.0 - SHAPE);
    SMALLEST.powf(SHAPE) / (1.0 - least) * SHAPE / (SHAPE - 1.0) * spread
}

/// Sends until the process is ended.
pub(super) fn run(congestion: &str, address: SocketAddr, rate: Rate, seed: u64) -> Result<()> {
    let mut draws = Draws::new(rate, seed);
    let mut due = Instant::now();
    loop {
        let (gap, bytes) = draws.next();
        due += gap;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let congestion = congestion.to_owned();
        thread::spawn(move || {
            let begun = clock::now();
            let sent = connect_tcp(&congestion, address)
                .and_then(|mut connection| long::flow(&mut connection, begun, bytes));
            if let Err(error) = sent {
                eprintln!("load: {error}");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_and_the_sizes_are_those_asked_for() {
        let rate = Rate::from_bits_per_second(30_000_000).unwrap();
        let mut draws = Draws::new(rate, 3);
        let (mut seconds, mut total, mut largest) = (0.0, 0, 0);
        for _ in 0..200_000 {
            let (gap, bytes) = draws.next();
            seconds += gap.as_secs_f64();
            total += bytes;
            largest = largest.max(bytes);
            assert!(bytes >= SMALLEST as u64);
        }
        let measured = total as f64 * 8.0 / seconds;
        assert!((measured / 30e6 - 1.0).abs() < 0.03, "{measured}");
        assert!((2_000_000..=LARGEST as u64).contains(&largest), "{largest}");
    }
}
