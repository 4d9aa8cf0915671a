//! What the processes of a measurement do, each in its network namespace.
//!
//! All of them except clients end with their standard input, so none outlives a laboratory that was killed.

mod command;
mod echo;
mod load;
mod long;
mod probe;
mod sink;

use std::{io, thread};

pub use command::Act;

/// Ends this process with its standard input.
fn end_with_input() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
}
