//! A flow, its path, and what else is known and going on.

use std::{fmt, sync::Arc};

use rc3_core::Congestion;
use rc3_text::units::about_bytes;

use super::Path;

/// A flow over a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Name of the scenario it belongs to.
    pub scenario: Arc<str>,
    /// The path.
    pub path: Path,
    /// Bytes of the application.
    pub bytes: u64,
    /// Cross traffic on the bottleneck.
    pub company: Company,
    /// What the sender knows of the destination.
    pub memory: Memory,
    /// Seed of everything random.
    pub seed: u64,
}

/// Cross traffic on the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Company {
    /// None.
    #[default]
    Nobody,
    /// So many long flows of plain QUIC with this controller, which began long before.
    Rivals(u32, Congestion),
    /// Short flows of plain QUIC that arrive at random and make up this share of the rate, 0 to 1.
    Load(f64),
}

/// What the sender knows of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Memory {
    /// Nothing: a new endpoint.
    #[default]
    Nothing,
    /// What an earlier flow of the same endpoint has taught it, when the bottleneck had so many times its present rate.
    Taught(f64),
}

impl Cell {
    /// Whether other seeds make another flow of it.
    pub fn is_random(&self) -> bool {
        let trouble = &self.path.trouble;
        let is_certain = trouble.loss == 0.0 && trouble.jitter.is_zero() && trouble.reordering.is_zero();
        self.company != Company::Nobody || !is_certain
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}", self.scenario, self.path, about_bytes(self.bytes))?;
        if self.is_random() { write!(f, ", seed {}", self.seed) } else { Ok(()) }
    }
}
