//! Scenario files: a world, what runs in it and what is measured, in TOML.
//!
//! [`Scenario::parse`] reads and checks a file, [`Scenario::set`] changes a key, [`Scenario::expand`] makes the
//! worlds: each case, each point of the sweep, each run, each repetition.

mod quantity;
mod run;
mod spec;

pub use quantity::{BufferSize, Probability, Share};
pub use run::{Assignment, Label, Mix, Mixed, Queues, Run, Scheme};
pub use spec::*;
