//! The simulated experiments of the laboratory, and the page of decisions. One binary: it links once, and the longest tests
//! run beside the others.

mod decisions;
mod over_time;
mod reports;
mod sim;
