//! Which processes run first on a busy machine.
//!
//! The kernel shares processors among sessions (autogroups) before it looks at nice values, so that a nice value counts
//! only within a session. A process of a measurement therefore gets a session of its own with a nice value.

use std::{fs, process::Command};

use rustix::process::{setpriority_process, setsid};

/// Of hosts: before everything that is not part of the measurement.
const NICE: i32 = -10;
/// Real-time priority of the WAN.
const REAL_TIME: &str = "50";

/// Lets this process run before those of other sessions. Without the right to it nothing happens; the lateness of the WAN
/// shows whether that matters.
pub fn raise() {
    let _ = setsid();
    let _ = setpriority_process(None, NICE);
    let _ = fs::write("/proc/self/autogroup", NICE.to_string());
}

/// This program, to be started before all others, if the host has `chrt`.
///
/// # Errors
/// If the system does not know where this program is.
pub fn first() -> std::io::Result<Command> {
    let program = std::env::current_exe()?;
    if !has_real_time() {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("chrt");
    command.args(["-f", REAL_TIME]).arg(program);
    Ok(command)
}

/// Whether processes can have a real-time priority.
pub fn has_real_time() -> bool {
    let tried = Command::new("chrt").args(["-f", REAL_TIME, "true"]).output();
    tried.is_ok_and(|output| output.status.success())
}
