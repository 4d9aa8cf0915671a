//! The laboratory's simulated experiments. One binary: it links once, and the longest tests run beside the others.

mod reports;
mod sim;
