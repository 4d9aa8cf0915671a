//! Resident memory of this process, and separate processes to measure it in.

use std::{env, process::Command, time::Instant};

pub(crate) const MIB: u64 = 1 << 20;

/// The case that a child process must run.
const CASE: &str = "RC3_MEMORY_CASE";

/// Runs `case` in its own process; `name` is the full name of the calling test.
pub(crate) fn isolated(name: &str, case: impl FnOnce()) {
    if resident().is_none() {
        println!("SKIPPED {name}: needs /proc/self/status");
        return;
    }
    if env::var(CASE).is_ok_and(|wanted| wanted == name) {
        case();
        return;
    }
    let this = env::current_exe().expect("a test knows its binary");
    let output = Command::new(this).args([name, "--exact", "--nocapture"]).env(CASE, name).output();
    let output = output.expect("a process for the case");
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    assert!(printed.contains("1 passed"), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Resident bytes of this process.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// The cost of one attack.
pub(crate) struct Meter {
    before: u64,
    begun: Instant,
}

impl Meter {
    #[expect(clippy::disallowed_methods, reason = "the cost of an attack is measured")]
    pub(crate) fn start() -> Self {
        Self { before: resident().expect("Linux"), begun: Instant::now() }
    }

    /// By how many bytes the process has grown. Prints that, and the time for each of `datagrams`.
    pub(crate) fn stop(&self, what: &str, datagrams: u64) -> u64 {
        let each = self.begun.elapsed() / u32::try_from(datagrams.max(1)).expect("few enough");
        let grown = resident().expect("Linux").saturating_sub(self.before);
        println!("{what}: {:.1} MiB, {each:?} for each of {datagrams} datagrams", grown as f64 / MIB as f64);
        grown
    }
}
