//! Messages of tests that cannot run here.

use std::{
    io::{self, Write},
    thread,
};

/// Prints what this test needs and lacks. Not by `eprintln!`: the test harness hides what a passing test prints.
pub(crate) fn skipped(needs: &str) {
    let test = thread::current();
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "SKIPPED {}: needs {needs}", test.name().unwrap_or("test"));
}
