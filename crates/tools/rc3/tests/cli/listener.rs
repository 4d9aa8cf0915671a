//! A listening `rc3 check` as a process.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// A running listener; killed when the test ends.
pub(crate) struct Listener {
    child: Child,
    pub(crate) ticket: String,
}

impl Listener {
    /// `rc3 check --listen --bind FLAGS...`
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut child = rc3()
            .args(["check", "--listen", "--bind"])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the listener starts");
        let mut ticket = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut ticket).expect("a ticket");
        Self { child, ticket: ticket.trim().to_owned() }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Uses no memory of paths, and leaves none.
pub(crate) fn rc3() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rc3"));
    command.env_remove("RUST_LOG").env_remove("RC3_TICKET").stdin(Stdio::null());
    command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    command
}
