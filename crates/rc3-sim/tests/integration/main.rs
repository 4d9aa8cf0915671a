//! Worlds in virtual time. One binary: it links once, and the longest tests run beside the others.

mod adversary;
mod epochs;
mod today;
mod world;
