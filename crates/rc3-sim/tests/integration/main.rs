//! Worlds in virtual time. One binary: it links once, and the longest tests run beside the others.

mod adversary;
mod closed_forms;
mod epochs;
mod world;
