//! Messages of tests that cannot run here.

use std::{
    io::{self, Write},
    thread,
};

use rc3_net::socket::{Options, Socket};

/// Prints what this test needs and lacks. Not by `eprintln!`: the test harness hides what a passing test prints.
pub(crate) fn skipped(needs: &str) {
    let test = thread::current();
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "SKIPPED {}: needs {needs}", test.name().unwrap_or("test"));
}

/// Whether sockets here send code points.
pub(crate) fn sends_code_points() -> bool {
    let socket = Socket::bind_plain(([127, 0, 0, 1], 0).into(), &Options::default()).expect("a socket");
    socket.capabilities().dscp
}
