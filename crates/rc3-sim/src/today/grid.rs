//! The grids.

use std::{fmt, time::Duration};

use rc3_core::units::Rate;

use super::{Discipline, Path};
use crate::units::about_bytes;

const RATES: [u64; 3] = [20, 100, 1000];
const RTTS: [u64; 3] = [20, 60, 150];
const BUFFERS: [f64; 4] = [0.1, 0.5, 1.0, 4.0];
const SIZES: [u64; 7] = [30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];

/// The rate of a card in the grid, in rates of the bottleneck.
const CARD: u64 = 10;

/// A flow over a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The path.
    pub path: Path,
    /// Bytes of the application.
    pub bytes: u64,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.path, about_bytes(self.bytes))
    }
}

/// 20 Mbit/s to 1 Gbit/s, 20 to 150 ms, 0.1 to 4 products of buffer, 30 kB to 30 MB, a card ten times as fast: 252
/// cells for each discipline.
pub fn grid(disciplines: &[Discipline]) -> Vec<Cell> {
    product(disciplines, &RATES, &RTTS, &BUFFERS, &SIZES)
}

/// A few cells that run in seconds.
pub fn quick(disciplines: &[Discipline]) -> Vec<Cell> {
    product(disciplines, &[20, 100], &[20, 60], &[0.5, 4.0], &[30_000, 300_000, 3_000_000])
}

fn product(
    disciplines: &[Discipline],
    mbits: &[u64],
    rtts: &[u64],
    buffers: &[f64],
    sizes: &[u64],
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &discipline in disciplines {
        for rate in mbits.iter().filter_map(|mbit| Rate::from_bits_per_second(mbit * 1_000_000)) {
            for &rtt in rtts {
                for &buffer in buffers {
                    let rtt = Duration::from_millis(rtt);
                    let path = Path { rate, rtt, buffer, card: CARD, discipline };
                    cells.extend(sizes.iter().map(|&bytes| Cell { path, bytes }));
                }
            }
        }
    }
    cells
}
