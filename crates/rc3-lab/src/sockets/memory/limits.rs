//! The settings that bound memory.

use clap::Args;

/// Settings that bound what an endpoint holds; without one, the library's default.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Limits {
    /// Bidirectional streams that the peer may have open
    #[arg(long, default_value_t = 1)]
    pub(crate) streams: u32,
    /// Receive window of a connection in bytes; a stream has a third of it
    #[arg(long)]
    pub(crate) receive_window: Option<u32>,
    /// Send window of a connection in bytes
    #[arg(long)]
    pub(crate) send_window: Option<u64>,
    /// Limit of an endpoint in bytes (rc3)
    #[arg(long)]
    pub(crate) memory_max: Option<u64>,
}

impl Limits {
    /// Without limits of memory.
    pub(crate) fn streams(count: usize) -> Self {
        Self { streams: u32::try_from(count).unwrap_or(u32::MAX), ..Self::default() }
    }

    /// As words of a command line.
    pub(crate) fn words(self) -> Vec<String> {
        let word = |name: &str, value: Option<u64>| value.map(|value| format!("--{name}={value}"));
        [
            word("streams", Some(self.streams.into())),
            word("receive-window", self.receive_window.map(Into::into)),
            word("send-window", self.send_window),
            word("memory-max", self.memory_max),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
