//! The command line: [`low`] is what was typed, [`high`] what it means, [`exit`] and [`terminal`] what comes of it.

pub mod exit;
pub mod high;
pub mod low;
#[cfg(unix)]
pub mod terminal;
pub mod ticket;
