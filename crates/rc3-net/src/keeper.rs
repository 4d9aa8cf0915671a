//! Connects an endpoint with its [`PathMemory`]: passes the memory to new connections, and saves new results soon
//! after.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use rc3_core::{DestinationVerdict, KnownPath};
use tokio::{runtime::Handle, task::JoinHandle};

use crate::paths::PathMemory;

/// Delay between the first new result and saving it with later ones.
const SAVE_AFTER: Duration = Duration::from_secs(5);

/// An endpoint's access to its memory.
pub(crate) struct Keeper {
    memory: PathMemory,
    /// New results may come from any thread.
    runtime: Handle,
}

impl Keeper {
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn new(memory: PathMemory) -> Self {
        Self { memory, runtime: Handle::current() }
    }

    /// The path itself, or else others that may be like it. Makes system calls, so do not call it under the lock.
    pub(crate) fn known(&self, remote: SocketAddr, bound: IpAddr) -> Vec<(IpAddr, KnownPath)> {
        let known = self.memory.known(remote, bound);
        let has_rate = known.is_some_and(|known| known.pace.is_some());
        let near = if has_rate { Vec::new() } else { self.memory.near(remote, bound) };
        known.map(|known| (remote.ip(), known)).into_iter().chain(near).collect()
    }

    /// There is a new result.
    pub(crate) fn on_learned(&self, learned: &DestinationVerdict, bound: IpAddr) {
        if self.memory.learn(learned, bound) {
            let memory = self.memory.clone();
            self.runtime.spawn(async move {
                tokio::time::sleep(SAVE_AFTER).await;
                tokio::task::spawn_blocking(move || save(&memory));
            });
        }
    }

    /// Saves unsaved results, on a thread that may block.
    pub(crate) fn save(&self) -> JoinHandle<()> {
        let memory = self.memory.clone();
        self.runtime.spawn_blocking(move || save(&memory))
    }
}

fn save(memory: &PathMemory) {
    if let Err(error) = memory.save() {
        tracing::debug!(%error, "cannot save the memory of paths");
    }
}
