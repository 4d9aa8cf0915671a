//! The command line: [`low`] is what was typed, [`high`] what it means, [`output`] and [`exit`] what comes of
//! it. [`manual`] turns what may be typed into manual pages and completions.

pub mod exit;
pub mod high;
pub mod kickass;
pub mod low;
pub mod manual;
pub mod output;
pub mod ticket;
