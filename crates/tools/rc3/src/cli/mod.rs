//! The command line: [`low`] parses it, [`high`] resolves its meaning, [`exit`] and [`terminal`] handle output.

pub mod exit;
pub mod high;
pub mod low;
pub mod terminal;
pub mod ticket;
pub mod tunnel;
pub mod usage;
