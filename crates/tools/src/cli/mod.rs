//! The command line: [`low`] is what was typed, [`high`] what it means, [`output`] and [`exit`] what comes of
//! it.

pub mod exit;
pub mod high;
pub mod kickass;
pub mod low;
pub mod output;
