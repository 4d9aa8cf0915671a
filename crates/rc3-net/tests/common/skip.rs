//! What a test says that cannot run here.

use std::{
    io::{self, Write},
    thread,
};

/// Says what this test needs and has not got. Not by `eprintln!`: the test harness keeps to itself what a test prints
/// that passes.
pub(crate) fn skipped(needs: &str) {
    let test = thread::current();
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "SKIPPED {}: needs {needs}", test.name().unwrap_or("test"));
}

/// Whether sockets have what only those of Linux have, such as marks and steering.
#[allow(dead_code, reason = "not all programs of tests ask")]
pub(crate) const LINUX_SOCKETS: bool = cfg!(all(target_os = "linux", not(rc3_portable)));
