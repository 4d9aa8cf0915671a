//! The machine on which it was measured.

use std::{fs, thread};

/// What a reader has to know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Processor, as the kernel names it.
    pub processor: String,
    /// Processors that this program may use.
    pub processors: usize,
    /// Release of the kernel.
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: model.map_or("an unknown processor", |(_, name)| name).trim().to_owned(),
            processors: thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
        }
    }
}

/// Processes that wanted to run during the last minute, on average.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}
