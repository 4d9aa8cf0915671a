//! The tokio runtime of this process.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
    process,
    sync::{Mutex, OnceLock, PoisonError},
};

use rc3_net::Endpoint;
use tokio::runtime;

/// The runtime, and the endpoint of all streams that connect.
pub(crate) struct Runtime {
    pub(crate) tokio: runtime::Runtime,
    client: OnceLock<Endpoint>,
}

/// With the process that it belongs to: its threads do not survive `os.fork`.
static CURRENT: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// The runtime of this process, started on first use. It runs until the process ends.
pub(crate) fn runtime() -> io::Result<&'static Runtime> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let process = process::id();
    match *current {
        Some((owner, runtime)) if owner == process => Ok(runtime),
        _ => {
            let tokio = runtime::Builder::new_multi_thread().thread_name("rc3").enable_all().build()?;
            let runtime = Box::leak(Box::new(Runtime { tokio, client: OnceLock::new() }));
            *current = Some((process, runtime));
            Ok(runtime)
        }
    }
}

impl Runtime {
    /// An endpoint at any port, which all callers share: what it learned about paths serves them all.
    pub(crate) fn client(&self) -> io::Result<Endpoint> {
        if let Some(endpoint) = self.client.get() {
            return Ok(endpoint.clone());
        }
        let _inside = self.tokio.enter();
        let endpoint = Endpoint::client((Ipv6Addr::UNSPECIFIED, 0).into())
            .or_else(|_| Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into()))?;
        // Another thread may have been faster.
        Ok(self.client.get_or_init(|| endpoint).clone())
    }
}
