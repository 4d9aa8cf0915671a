//! What the programs share. Criterion benchmarks live in `benches/`.

pub mod clock;
